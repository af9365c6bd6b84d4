"""A kernel among hostile surroundings: callbacks that deny, rewrite, fail, answer later and throw clients out.

What is set and who hooks in is decided by the first bytes of an input. `World.check_bounds` says what may never grow
beyond its setting, `World.end` that nothing is left when every connection has ended.
"""

import logging
from dataclasses import replace
from typing import Final

from fuzz.source import Source
from heliograph.broker import hooks
from heliograph.broker.actions import Action
from heliograph.broker.authentication import AuthAttempt, AuthStep
from heliograph.broker.client import ClientInfo
from heliograph.broker.guid import IdSource
from heliograph.broker.message import Message, make_message
from heliograph.broker.pending import Pending
from heliograph.broker.publishing import publish
from heliograph.channel.handles import CommitWaiter, ReaderHandle
from heliograph.channel.options import ChannelOptions
from heliograph.config.services import AutoSubscribeTopic
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.policies.auto_subscribe import AutomaticSubscriptions
from heliograph.policies.delayed import DelayedMessages
from heliograph.retainer.memory import MemoryRetainer
from heliograph.session.options import SessionOptions
from retainer.retaining import clear
from support.kernel import Kernel
from support.options import CHANNEL, LISTENER, RETAINER, SESSION
from support.reach import count, reachable

ROUTES_MAX: Final = 6
RETAINED_MAX: Final = 3
DELAYED_MAX: Final = 3
MQUEUE_LEN: Final = 3
SUBSCRIPTIONS_MAX: Final = 5
AWAITING_REL_MAX: Final = 2
EXPIRY_S: Final = 60
# More turns than that for what an input can ask for is going round in circles.
_TURNS_MAX: Final = 20_000
_SWEPT_MAX: Final = 100
_FOR_EVER_S: Final = 20.0 * 365 * 86_400

_log = logging.getLogger("heliograph.fuzz")
_log.setLevel(logging.CRITICAL)  # what services tell the operator would be most of what a run does


class PlannedError(Exception):
    """A callback failed because it was to fail."""


class World(Kernel):
    """A kernel with everything around it that an input asks for."""

    def __init__(self, source: Source) -> None:
        options = _channel_options(source)
        super().__init__(options, _session_options(source), stored=["stored/#"], routes_max=ROUTES_MAX)
        self.revoked: set[str] = set()  # first levels of topics that nobody may use for the time being
        self.deferred: list[tuple[str, Pending[object]]] = []  # by hook point
        self.superusers: set[str] = set()
        self.retainer = MemoryRetainer(
            self.broker,
            replace(
                RETAINER,
                max_retained_messages=RETAINED_MAX,
                max_payload_size=200,
                batch_deliver_number=source.pick((0, 1)),
            ),
        )
        self.broker.retained = self.retainer
        self.delayed = DelayedMessages(
            self.broker, DELAYED_MAX, None, IdSource(1, self.context.next_number()),
            self.defer, lambda clientid: clientid == "two", _log,
        )  # fmt: skip
        self._ids = IdSource(1, self.context.next_number())
        self._hook_in(source)

    # --- what an input may ask for beside packets

    def run(self) -> None:
        """Run turns until nothing waits, which must come to an end."""
        for _ in range(_TURNS_MAX):
            if not self._callbacks:
                return
            self.turn()
        raise AssertionError(f"after {_TURNS_MAX} turns there is still something to do")

    def advance(self, seconds: float) -> None:
        """Let time pass, for the services too; no turn lasts that long."""
        self.run()
        super().advance(seconds)
        self.retainer.sweep(_SWEPT_MAX)
        self.delayed.tick(self.now_us)
        self.run()

    def publish(self, topic: str, retain: bool) -> None:
        """Publish a message of the broker's own."""
        message = make_message(self.broker.now_us, self._ids.next_low(), topic, b"own", 1, retain, b"", "$broker", None)
        publish(self.broker, message)
        self.run()

    def resolve(self, code: int) -> None:
        """Have the callback that was asked first answer."""
        if not self.deferred:
            return
        point, pending = self.deferred.pop(0)
        if point == hooks.CLIENT_AUTHENTICATE:
            step = AuthStep(code, b"later" if code == rc.CONTINUE_AUTHENTICATION else None)
            pending.resolve((hooks.STOP, step))
        elif point == hooks.CLIENT_AUTHORIZE:
            pending.resolve(hooks.OK if code == rc.SUCCESS else (hooks.STOP, "deny"))
        else:
            pending.resolve(hooks.OK if code == rc.SUCCESS else (hooks.STOP, None))
        self.run()

    def on_behalf(self, clientid: str, what: int) -> None:
        """Do something to a client from outside its conversation."""
        channel = self.context.channels.find(clientid)
        if channel is None:
            return
        if what == 0:
            channel.subscribe([p.SubscribeEntry("a/#", 1, False, False, 0)])
        elif what == 1:
            channel.unsubscribe(["a/#", "a"])
        else:
            channel.shut_down(rc.SERVER_BUSY)
        self.run()

    # --- callbacks

    def _hook_in(self, source: Source) -> None:
        wanted = source.uint16()
        points = self.broker.hooks
        callbacks: list[tuple[str, hooks.Callback]] = [
            (hooks.CLIENT_AUTHENTICATE, self._authenticate),
            (hooks.CLIENT_AUTHORIZE, self._authorize),
            (hooks.MESSAGE_PUBLISH, self._on_publish),
            (hooks.CLIENT_CONNECTED, self._on_connected),
            (hooks.CLIENT_SUBSCRIBE, self._on_subscribe),
            (hooks.CLIENT_UNSUBSCRIBE, self._on_unsubscribe),
            (hooks.MESSAGE_DROPPED, self._fail),
            (hooks.DELIVERY_DROPPED, self._on_delivery_dropped),
            (hooks.SESSION_TAKENOVER, self._on_takenover),
            (hooks.CLIENT_DISCONNECTED, self._on_disconnected),
            (hooks.MESSAGE_ACKED, self._fail),
        ]
        for number, (point, callback) in enumerate(callbacks):
            if wanted >> number & 1:
                points.point(point).add(callback)
        points.point(hooks.MESSAGE_DELIVERED).add(self._on_delivered)
        points.point(hooks.MESSAGE_PUBLISH).add(self.delayed.on_message_publish, -1, self.delayed.wants)
        if wanted >> 15 & 1:
            topics = [AutoSubscribeTopic("auto/${clientid}/#"), AutoSubscribeTopic("$share/g/${username}", 1)]
            auto = AutomaticSubscriptions(
                topics, self.context.channels.find, lambda: self.options.max_topic_levels, _log, lambda: self.now_us
            )
            points.point(hooks.CLIENT_CONNECTED).add(auto.on_client_connected)

    def _authenticate(self, client: ClientInfo, attempt: AuthAttempt, _outcome: object) -> object:
        if attempt.method == "challenge":
            asked = attempt.state if isinstance(attempt.state, int) else 0
            attempt.state = asked + 1
            return hooks.STOP, AuthStep(rc.CONTINUE_AUTHENTICATION if asked < 1 else rc.SUCCESS, b"?" * (asked + 1))
        if client.username == "wait":
            return self._answer_later(hooks.CLIENT_AUTHENTICATE)
        if client.username == "admin":
            client.is_superuser = True
            self.superusers.add(client.clientid)
        else:
            self.superusers.discard(client.clientid)
        if client.username == "nobody":
            return hooks.STOP, rc.BAD_USERNAME_OR_PASSWORD
        if client.username == "":
            raise PlannedError
        return hooks.OK

    def _authorize(self, client: ClientInfo, action: Action, topic: str, _verdict: object) -> object:
        if topic == "/":
            raise PlannedError
        first = topic.split("/")[0]
        if client.username == "wait" and first == "a":
            return self._answer_later(hooks.CLIENT_AUTHORIZE)
        return (hooks.STOP, "deny") if first == "denied" or first in self.revoked else hooks.OK

    def _answer_later(self, point: str) -> Pending[object]:
        pending: Pending[object] = Pending()
        self.deferred.append((point, pending))
        return pending

    def _on_publish(self, message: Message) -> object:
        if message.username == "wait" and message.topic.startswith("r"):
            return self._answer_later(hooks.MESSAGE_PUBLISH)
        if message.topic == "a/b/c":
            return hooks.STOP, None
        if message.topic == "$SYS/a":
            raise PlannedError
        if message.topic not in ("b", "/"):
            return hooks.OK
        topic = "r/a" if message.topic == "b" else "no/+"
        other = make_message(
            message.id_high, message.id_low, topic, message.payload, message.qos, message.retain,
            message.property_bytes, message.clientid, message.username,
        )  # fmt: skip
        return hooks.OK, other

    def _on_connected(self, client: ClientInfo, *_told: object) -> None:
        if client.clientid == "kicked":
            self._shut_down(client.clientid)

    def _on_subscribe(self, _client: ClientInfo, _properties: object, entries: list[p.SubscribeEntry]) -> object:
        for entry in entries:
            if entry.topic_filter == "b":
                entry.code = rc.QUOTA_EXCEEDED
        if len(entries) == 3:
            return hooks.OK, entries[:1]  # not as many: of no effect
        return hooks.OK, [
            p.SubscribeEntry("a", 2, False, False, 0) if one.topic_filter == "+/b" else one for one in entries
        ]

    def _on_unsubscribe(self, _client: ClientInfo, _properties: object, filters: list[str]) -> object:
        return hooks.OK, ["a" if topic_filter == "+/b" else topic_filter for topic_filter in filters]

    def _on_delivery_dropped(self, clientid: str, _message: Message, reason: str, *_told: object) -> None:
        if reason == "too_large":
            self._shut_down(clientid)

    def _on_takenover(self, clientid: str, *_told: object) -> None:
        self._shut_down(clientid)

    def _on_disconnected(self, client: ClientInfo, reason: str, *_told: object) -> None:
        if reason == "keepalive_timeout":
            self._shut_down("two")

    def _fail(self, *_told: object) -> None:
        raise PlannedError

    def _shut_down(self, clientid: str) -> None:
        channel = self.context.channels.find(clientid)
        if channel is not None:
            channel.shut_down(rc.ADMINISTRATIVE_ACTION)

    def _on_delivered(self, clientid: str, message: Message, *_told: object) -> None:
        session = self.sessions.find(clientid)
        mountpoint = "" if session is None else session.mountpoint
        if not message.topic.startswith(mountpoint):
            self.reports.append(f"LEAK: {clientid!r}, who lives in {mountpoint!r}, got {message.topic!r}")
        is_guarded = bool(self.broker.hooks.client_authorize.callbacks) and clientid not in self.superusers
        if is_guarded and message.topic[len(mountpoint) :].split("/")[0] == "denied":
            self.reports.append(f"LEAK: {clientid!r} got {message.topic!r}, which it may not have")

    # --- what must hold

    def _commit_all(self) -> None:
        for _ in range(self.sink.open_ticket - self.sink.committed_ticket):
            self.commit()

    def check_bounds(self) -> None:
        """Nothing is larger than it was set to be, and no callback failed that was not meant to."""
        for _, error in self.hook_failures:
            # A callback that answers with a topic that may not be published to has failed, and is told so.
            assert isinstance(error, (PlannedError, hooks.LateAnswerError)) or "no/+" in str(error), repr(error)
        self.hook_failures.clear()
        assert not [report for report in self.reports if report.startswith("LEAK")], self.reports
        self.reports.clear()
        options = self.options.session
        for session in self.sessions.all():
            numbers = session.statistics()
            assert numbers["subscriptions_cnt"] <= SUBSCRIPTIONS_MAX, numbers
            assert numbers["inflight_cnt"] <= options.max_inflight, numbers
            assert numbers["mqueue_len"] <= MQUEUE_LEN * (2 if options.mqueue_priorities else 1), numbers
            assert numbers["awaiting_rel_cnt"] <= AWAITING_REL_MAX, numbers
        statistics = self.broker.statistics()
        assert statistics["routes.cached"] <= ROUTES_MAX, statistics
        assert len(self.retainer) <= RETAINED_MAX
        assert len(self.delayed) <= DELAYED_MAX
        assert len(self.broker.exclusive) <= statistics["subscriptions.count"]

    def end(self) -> None:
        """Every connection has ended: end the sessions too, and see that nothing is left of them."""
        self.sink.full = False
        self._commit_all()
        self.advance(1.0)
        # What a connection left to be called later would keep it in memory.
        assert not self._later, f"something is to be called in {(self._later[0][0] - self.now_us) / 1e6} s"
        assert self.context.channels.statistics() == {"connections.open": 0, "live_connections.count": 0}
        self.advance(_FOR_EVER_S)
        for clientid in [one.clientid for one in self.sessions.all()]:  # those that never expire
            session, _ = self.sessions.open(clientid, False, self.options.session)
            session.expiry_interval_s = 0
            self.sessions.leave(session, None)
        self.delayed.clear()
        self.run()
        self._commit_all()  # wills may have been stored
        self.check_bounds()
        assert self.sessions.statistics() == {"sessions.count": 0, "sessions.away": 0}
        assert count(self.sessions, p.Will, within="heliograph.session") == 0
        statistics = self.broker.statistics()
        assert (statistics["topics.count"], statistics["subscriptions.count"]) == (0, 0), statistics
        assert (statistics["shared_groups.count"], statistics["subscriptions.shared.count"]) == (0, 0), statistics
        assert self.broker.router.filters.trie.root.is_empty()
        assert self.broker.router.dispatching == 0
        assert not self.broker.exclusive
        for who_waits in (self.context.commits, self.context.turns):
            assert count(who_waits, CommitWaiter) == count(who_waits, ReaderHandle) == 0, who_waits
        clear(self.retainer, "#")
        left = reachable(self.retainer, bytes, within="heliograph.retainer.memory")
        assert len(self.retainer) == len([topic for topic in left if topic.startswith(b"$")])


def _session_options(source: Source) -> SessionOptions:
    return replace(
        SESSION,
        max_inflight=source.pick((1, 2, 32)),
        retry_interval_us=source.pick((0, 3_000_000)),
        max_mqueue_len=MQUEUE_LEN,
        mqueue_store_qos0=source.flag(),
        mqueue_priorities={"a": 7} if source.flag() else {},
        max_awaiting_rel=AWAITING_REL_MAX,
        await_rel_timeout_us=5_000_000,
        upgrade_qos=source.flag(),
        ignore_loop_deliver=source.flag(),
    )


def _channel_options(source: Source) -> ChannelOptions:
    bits = source.byte()
    return replace(
        CHANNEL,
        max_packet_size=source.pick((2048, 1_048_576, 100)),
        max_topic_levels=source.pick((128, 3)),
        max_qos_allowed=source.pick((2, 2, 2, 1, 0)),
        max_topic_alias=source.pick((65_535, 0, 2)),
        server_topic_alias=source.pick((256, 0, 2)),
        retain_available=bits & 8 == 0,
        wildcard_subscription=bits & 24 != 24,
        shared_subscription=bits & 48 != 48,
        exclusive_subscription=True,
        max_subscriptions=SUBSCRIPTIONS_MAX,
        session_expiry_interval_s=EXPIRY_S,
        message_expiry_interval_s=source.pick((0, 0, 10)),
        server_keepalive_s=source.pick((0, 0, 5)),
        strict_mode=bits & 64 != 0,
        response_information="r/",
        use_username_as_clientid=bits & 128 != 0,
        unsent_bytes_max=source.pick((33_554_432, 4096)),
        authz_cache_size=source.pick((32, 0, 1)),
        authz_disconnects=source.rarely(),
        listener=replace(
            LISTENER,
            mountpoint=source.pick(("", "", "m/", "${clientid}/", "u/${username}/")),
            enable_authn=bits & 1 == 0,
            deny_anonymous=bits & 6 == 6,
            messages_rate=source.pick((0.0, 0.0, 2.0)),
            bytes_rate=source.pick((0.0, 0.0, 0.0, 20.0)),
        ),
    )
