"""What one client may publish and subscribe to: asks the node's rights, and remembers the answers for a while.

An answer may come later. What the client itself asked for then waits (`Authorizer.awaited`), and nothing of the client
is handled meanwhile. What is asked for each message that it receives cannot wait: that message is refused, and the
answer counts for the next ones.
"""

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from heliograph.broker.actions import (
    ALLOW,
    ALLOWED_BY_CACHE,
    DENIED_BY_CACHE,
    DENIED_BY_DEFAULT,
    FAILED_CHECK,
    SUPERUSER,
    Action,
    Decision,
    publish_action,
    subscribe_action,
)
from heliograph.broker.client import ClientInfo
from heliograph.broker.hooks import PendingChain
from heliograph.broker.message import Message
from heliograph.broker.node_rights import concluded
from heliograph.broker.pending import Pending
from heliograph.broker.pubsub import Broker
from heliograph.broker.router import Route
from heliograph.channel.decision_cache import DecisionCache
from heliograph.channel.options import ChannelOptions
from heliograph.mqtt.topic import DELAYED_PREFIX, without_delay
from heliograph.session.access_check import AccessCheck

# Questions about messages for one client that may wait for answers at a time; beyond it none is asked.
_ASKED_MAX: Final = 64
_FOR_EVER: Final = 0x7FFFFFFFFFFFFFFF


class PendingDecision(Pending[bool]):
    """Whether a client may do something, where a callback of `client.authorize` has yet to say so.

    Args:
        due_us: When it counts as denied.
        authorizer: Remembers the decision; None for one that is not remembered.

    Attributes:
        is_waited_for: Whether something waits for it and checks its deadline.
        has_failed: Whether something could not be asked that might have decided otherwise.
        epoch: That of the node's rights when it was asked.
    """

    def __init__(
        self,
        broker: Broker,
        chain: PendingChain,
        client: ClientInfo,
        action: Action,
        topic: str,
        due_us: i64,
        authorizer: "Authorizer | None",
    ) -> None:
        super().__init__()
        self.due_us = due_us
        self.action, self.topic = action, topic
        self.is_waited_for = self.has_failed = False
        self.epoch: i64 = broker.rights.epoch
        self._asked_us = broker.uptime_us
        self._broker = broker
        self._chain = chain
        self._client = client
        self._authorizer = authorizer
        chain.then(self._on_answer)

    def then(self, callback: Callable[[bool], None]) -> None:
        self.is_waited_for = True
        super().then(callback)

    def expire(self) -> None:
        """The deadline has passed: go on without the callback that has not answered, which denies it."""
        self._chain.expire()

    def cancel(self) -> None:
        super().cancel()
        self._chain.cancel()
        if self._authorizer is not None:
            self._authorizer.forget(self)

    def _on_answer(self, outcome: tuple[str, object]) -> None:
        self._broker.times.on_authorized(self._asked_us)
        decision = concluded(outcome[0], outcome[1])
        self.has_failed = decision.is_unsure
        tell(self._broker, self._client, self.action, self.topic, decision)
        if self._authorizer is not None:
            self._authorizer.remember(self, decision.is_allowed)
        self.resolve(decision.is_allowed)


class Authorizer(AccessCheck):
    """One client's rights by the last answers; made with its CONNACK, kept by its session until the next one.

    Attributes:
        checked_bytes: What the client had been sent when its subscriptions were last checked again.
        awaited: The answer to the last question, where that is not there yet; the client is denied until then.
        has_failed: Whether something could not be asked at the last question that might have decided otherwise.

    Topics are those that the client knows, without its mountpoint.
    """

    def __init__(self, broker: Broker, client: ClientInfo, options: ChannelOptions) -> None:
        super().__init__()
        self._broker = broker
        self.client = client
        self.options = options  # of its connection
        self.epoch: i64 = broker.rights.epoch  # of the node's rights that the remembered answers are of
        # The last publish that was allowed, and until when it may be taken for allowed without looking it up.
        self._allowed_route: Route | None = None
        self._allowed_number: i64 = 0
        self._allowed_until_us: i64 = 0
        self._allowed_by: Decision | None = None  # if that is not remembered, and holds until the epoch rises
        self._decided: Decision | None = None  # the last answer, if it was not remembered
        self.checked_bytes: i64 = 0
        self.awaited: PendingDecision | None = None
        self.has_failed = False
        self._kept_until_us: i64 = 0  # how long the last answer is remembered
        self.cache: DecisionCache | None = None  # made with the first decision
        self._asked: dict[tuple[i64, str], PendingDecision] | None = None  # by the number of the action and the topic

    def set_options(self, options: ChannelOptions) -> None:
        self.options = options
        self._allowed_route = None
        self.cache = None

    def renewed(self) -> "Authorizer":
        """One for the same client that relies on nothing, and that nothing else waits for."""
        return Authorizer(self._broker, self.client, self.options)

    def due_us(self) -> i64:
        """Until when an answer is waited for that is asked for now; 0 for ever."""
        return self.options.due_us(self._broker.uptime_us)

    def renew_rights(self) -> None:
        """Ask again for what may have changed unseen; what cannot be asked now stays as it was."""
        self._broker.rights.renew(self.client)

    def forget_answers(self) -> None:
        """Rely on no answer of before, and on none that is on its way."""
        if self._asked is not None:
            for decision in self._asked.values():
                decision.epoch = -1  # its answer is about what the client was
            self._asked.clear()
        self.drop_cached()

    def forget_rights(self) -> None:
        """Rely on nothing that was known of the client's rights: what the client is may have changed too."""
        self.client.kept_rights = None
        self.forget_answers()

    def drop_cached(self) -> None:
        """Rely on no answer of before."""
        self.epoch = self._broker.rights.epoch
        self._allowed_route = None
        self.cache = None

    def may_publish(self, qos: i64, retain: bool, route: Route) -> bool:
        """Whether the client may publish to a (mounted) topic; look at `awaited` if not."""
        number = qos * 2 + (1 if retain else 0)
        broker = self._broker
        rights = broker.rights
        if (
            route is self._allowed_route
            and number == self._allowed_number
            and broker.uptime_us < self._allowed_until_us
            and rights.epoch == self.epoch
        ):
            decision = self._allowed_by
            if decision is None:
                broker.counters.authz_cached_allowed += 1
                if rights.wants_cached:
                    self._tell_published(qos, retain, route, ALLOWED_BY_CACHE)
                return True
            broker.counters.authz_allowed += 1
            broker.counters.authz_matched_allow += 1
            if rights.wants_allowed:
                self._tell_published(qos, retain, route, decision)
            return True
        if not self._may_publish(publish_action(qos, retain), self._without_mountpoint(route.topic)):
            self._allowed_route = None
            return False
        self._allowed_route = route
        self._allowed_number = number
        self._allowed_until_us = self._kept_until_us
        self._allowed_by = None
        if self._kept_until_us == 0 and rights.is_lasting and self.client.acl is None:
            decided = self._decided
            if decided is not None and decided is not SUPERUSER and not rights.is_default(decided):
                self._allowed_until_us = _FOR_EVER
                self._allowed_by = decided
        return True

    def _tell_published(self, qos: i64, retain: bool, route: Route, decision: Decision) -> None:
        topic = without_delay(self._without_mountpoint(route.topic))
        self._broker.rights.tell(self.client, publish_action(qos, retain), topic, decision)

    def _may_publish(self, action: Action, topic: str) -> bool:
        if topic.startswith(DELAYED_PREFIX):  # `$delayed/0/secret` is a way to `secret`
            named, topic = topic, without_delay(topic)
            if not topic or topic.startswith(DELAYED_PREFIX):
                self.awaited = None
                self.has_failed = False
                tell(self._broker, self.client, action, named, DENIED_BY_DEFAULT)
                return False
        return self._decide(action, topic, False)

    def may_subscribe(self, qos: int, topic_filter: str) -> bool:
        """Whether the client may subscribe to a filter; look at `awaited` if not."""
        return self._decide(subscribe_action(qos), topic_filter, False)

    def tell_denied(self, qos: i64, retain: bool, topic: str) -> None:
        """Count and tell a publish that is denied without a question."""
        tell(self._broker, self.client, publish_action(qos, retain), topic, DENIED_BY_DEFAULT)

    def may_receive(self, topic: str, qos: int) -> bool:
        if self.client.is_superuser:
            return True
        allowed = self._decide(subscribe_action(qos), self._without_mountpoint(topic), True)
        if self.awaited is not None:
            _expire(self.awaited, self._broker.uptime_us)
        return allowed

    def may_publish_now(self, message: Message) -> Pending[bool]:
        decided: Pending[bool] = Pending()
        client, broker = self.client, self._broker
        action = publish_action(message.qos, message.retain)
        named = self._without_mountpoint(message.topic)
        topic = without_delay(named)
        decision = SUPERUSER
        if not topic or topic.startswith(DELAYED_PREFIX):
            topic, decision = named, DENIED_BY_DEFAULT
        elif not client.is_superuser:
            outcome = broker.rights.ask(client, action, topic)
            if isinstance(outcome, PendingChain):
                due_us = self.due_us()
                return PendingDecision(broker, outcome, client, action, topic, due_us, None)
            decision = outcome
        tell(broker, client, action, topic, decision)
        decided.resolve(decision.is_allowed)
        return decided

    def granted(self, message: Message) -> str:
        """What the rights that the client itself has say of its will: `allow`, `deny`, or nothing."""
        client = self.client
        if client.is_superuser:
            return ALLOW
        topic = without_delay(self._without_mountpoint(message.topic))
        decision = self._broker.rights.carried(client, publish_action(message.qos, message.retain), topic)
        return "" if decision is None else decision.result

    def may_come_from(self, message: Message) -> bool:
        """Whether the publisher of a retained message may still publish it; its address is not known any more."""
        is_brokers_own = not message.clientid  # no client is without an id
        broker = self._broker
        if is_brokers_own or not broker.checks_retained_source or not broker.rights.is_checked:
            return True
        publisher = ClientInfo(message.clientid, message.username, "")
        action = publish_action(message.qos, True)
        topic = self._without_mountpoint(message.topic)
        decision = broker.rights.known(publisher, action, topic)
        if decision is None:  # the message cannot wait, and nothing says that its publisher may not
            return True
        broker.rights.tell(publisher, action, topic, decision)
        return decision.is_allowed

    def remember(self, decision: PendingDecision, allowed: bool) -> None:
        """An answer that had to be waited for is there."""
        self.forget(decision)
        if decision.epoch == self._broker.rights.epoch and not decision.has_failed:
            self._keep(decision.action, decision.topic, allowed)

    def forget(self, decision: PendingDecision) -> None:
        asked, key = self._asked, (decision.action.number, decision.topic)
        if asked is not None and asked.get(key) is decision:
            del asked[key]
        if self.awaited is decision:
            self.awaited = None  # they would refer to each other

    def _without_mountpoint(self, topic: str) -> str:
        mountpoint = self.client.mountpoint
        return topic[len(mountpoint) :] if mountpoint else topic

    def _decide(self, action: Action, topic: str, is_for_message: bool) -> bool:
        self.awaited = None
        self.has_failed = False
        self._kept_until_us = 0
        self._decided = None
        broker = self._broker
        now: i64 = broker.uptime_us
        if self.epoch != broker.rights.epoch:
            self.drop_cached()
        cache = self.cache
        known: i64 = 0 if cache is None else cache.until_us(action.number, topic)
        if known > now or known < -now:
            self._kept_until_us = known
            if not is_for_message:
                self._on_hit(action, topic, known > 0)
            return known > 0
        if self.client.is_superuser:
            return self._take(action, topic, SUPERUSER)
        asked = self._asked
        if asked:
            self.awaited = asked.get((action.number, topic))
            if self.awaited is not None:
                return False
            if is_for_message and len(asked) >= _ASKED_MAX and not _has_room(asked, broker.uptime_us):
                return False
        outcome = broker.rights.ask(self.client, action, topic, is_for_message)
        if isinstance(outcome, PendingChain):
            self.awaited = self._await(outcome, action, topic)
            return False
        return self._take(action, topic, outcome)

    def _on_hit(self, action: Action, topic: str, allowed: bool) -> None:
        """Count and tell a decision that is remembered."""
        broker = self._broker
        if allowed:
            broker.counters.authz_cached_allowed += 1
        else:
            broker.counters.authz_cached_denied += 1
        if broker.rights.wants_cached:
            broker.rights.tell(self.client, action, topic, ALLOWED_BY_CACHE if allowed else DENIED_BY_CACHE)

    def _take(self, action: Action, topic: str, decision: Decision) -> bool:
        self.has_failed = decision.is_unsure
        tell(self._broker, self.client, action, topic, decision)
        allowed = decision.is_allowed
        if not decision.is_unsure:  # else it is asked for again: what could not be asked may be back
            self._decided = decision
            self._kept_until_us = self._keep(action, topic, allowed)
        return allowed

    def _keep(self, action: Action, topic: str, allowed: bool) -> i64:
        """Remember an answer: until when, 0 if it is not remembered."""
        if self.options.authz_cache_size <= 0:
            return 0
        cache = self.cache
        if cache is None:
            cache = DecisionCache(self.options)
            self.cache = cache
        return cache.keep(action.number, topic, allowed, self._broker.uptime_us)

    def _await(self, chain: PendingChain, action: Action, topic: str) -> PendingDecision:
        due_us = self.due_us()
        decision = PendingDecision(self._broker, chain, self.client, action, topic, due_us, self)
        if self._asked is None:
            self._asked = {}
        self._asked[(action.number, topic)] = decision
        return decision


def tell(broker: Broker, client: ClientInfo, action: Action, topic: str, decision: Decision) -> None:
    """Count a decision that was just made, and run the callbacks for it."""
    counters = broker.counters
    if decision.is_allowed:
        counters.authz_allowed += 1
    else:
        counters.authz_denied += 1
    if decision is SUPERUSER:
        counters.authz_superuser += 1
    elif broker.rights.is_default(decision):
        counters.authz_no_match += 1
    elif decision.is_allowed:
        counters.authz_matched_allow += 1
    elif decision is not FAILED_CHECK:
        counters.authz_matched_deny += 1
    broker.rights.tell(client, action, topic, decision)


def _has_room(asked: dict[tuple[i64, str], PendingDecision], uptime_us: i64) -> bool:
    """Do without all answers that have not come in time; whether one more may be asked for."""
    if asked[next(iter(asked))].is_late(uptime_us):  # the first one that was asked for
        for decision in list(asked.values()):
            _expire(decision, uptime_us)
    return len(asked) < _ASKED_MAX


def _expire(decision: PendingDecision, uptime_us: i64) -> None:
    """Give up an answer that is late, if nothing else checks its deadline."""
    if not decision.is_waited_for and decision.is_late(uptime_us):
        decision.expire()
