"""The sessions of a node by client id, with the timers of those without a connection: expiry and delayed wills."""

import heapq
from typing import Final

from mypy_extensions import i64

from heliograph.broker import hooks
from heliograph.broker.faults import SESSIONS
from heliograph.broker.pending import Pending
from heliograph.broker.pubsub import Broker
from heliograph.broker.walkable import Listed, ListWalk
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.errors import ProtocolError
from heliograph.session.durability import Durability
from heliograph.session.durable import DurableSession
from heliograph.session.known import KnownSessions
from heliograph.session.options import SessionOptions
from heliograph.session.outbox import Outbox
from heliograph.session.session import Session
from heliograph.session.will import Will
from heliograph.session.wills import Wills

EXPIRY_NEVER: Final = 0xFFFFFFFF  # MQTT 5: the session does not expire

# Each costs some microseconds, and no turn may take long.
_ENDS_AT_ONCE: Final = 4_000
_SAVED_ENDS_AT_ONCE: Final = 400  # where they are on the disk
_SUBSCRIPTIONS_AT_ONCE: Final = 10_000  # of a session that ends; some have a hundred thousand

_END: Final = 0
_WILL: Final = 1


class SessionTable:
    """Every session of this node; owned by the node.

    Those in memory are here; of one that lies on the disk only, and is read when its client comes, only its end
    is known.

    A session that is away has an entry in the timer heap for its end and perhaps one for its will. Entries are not
    taken out when a client comes back: each names the absence that it belongs to and is passed over afterwards.
    """

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.known = KnownSessions()
        self.wills = Wills(broker)
        self._ending: list[Session] = []  # those that still have subscriptions
        self._timers: list[tuple[int, int, int, str]] = []
        self.away_max: i64 = 0  # how many may be away before further ones are refused; 0 for any number
        self.durability: Durability | None = None  # see `keep_in`
        self.has_mountpoints = False  # some session has or had one

    def __len__(self) -> int:
        return len(self.known)

    @property
    def asleep_count(self) -> int:
        return len(self.known.asleep)

    def keep_in(self, durability: Durability) -> None:
        self.durability = durability
        self.wills.durability = durability

    def find(self, clientid: str) -> Session | None:
        """The session of a client, if there is one; read from the disk if it lies only there."""
        known = self.known
        session = known.held.get(clientid)
        durability = self.durability
        if session is not None or durability is None or (durability.knows_all and clientid not in known.asleep):
            return session
        return durability.awaken(clientid)

    def look_up(self, clientid: str, clean_start: bool) -> Pending[bool] | None:
        """Read what `open` needs of the disk in later turns: whether that worked. None if it needs nothing."""
        durability = self.durability
        if durability is None:
            return None
        known = self.known
        session = known.held.get(clientid)
        if session is None and durability.knows_all and clientid not in known.asleep:
            return None
        return None if session is not None and session.attached else durability.look_up(clientid, clean_start)

    def held(self, clientid: str) -> Session | None:
        return self.known.held.get(clientid)

    def knows(self, clientid: str) -> bool:
        return clientid in self.known

    def all(self) -> list[Session]:
        """Every session in memory; a list of a million costs 10 ms, which `walk` does not."""
        return list(self.known.held.values())

    def walk(self, before: i64 = 0) -> ListWalk[Listed]:
        """Begin a walk through all sessions: a `Session` each, and an `Asleep` for one that is on the disk only.

        Args:
            before: Only those with lower numbers, where a walk ended before; 0 for all.
        """
        return self.known.walk(before)

    def open(
        self, clientid: str, clean_start: bool, options: SessionOptions, expiry_s: i64 = 0, outbox: Outbox | None = None
    ) -> tuple[Session, bool]:
        """The session for a client that connects, and whether it was there before.

        A clean start ends an earlier one [MQTT-3.1.2-4]; otherwise it goes on [MQTT-3.1.2-5].

        Args:
            expiry_s: Its expiry interval; one above 0 is worth keeping.
            outbox: The connection's; what is put into it from now on waits until the disk has the session.
        """
        session = self.find(clientid)  # [MQTT-3.1.3-2] 3.1.1 [MQTT-3.1.3-2]
        if session is not None and not clean_start:  # [MQTT-3.1.2-5] 3.1.1 [MQTT-3.1.2-4]
            session.recall()
            self.known.come_back(clientid)
            self.wills.take_back(clientid)  # [MQTT-3.1.3-9]
            session.set_options(options)
            session.expiry_interval_s = expiry_s
            self._save(session, outbox)
            self.broker.counters.sessions_resumed += 1
            self.broker.hooks.run(hooks.SESSION_RESUMED, (clientid,))
            return session, True  # [MQTT-3.2.2-3] 3.1.1 [MQTT-3.2.2-2]
        if session is None and expiry_s > 0 and self.away_max != 0 and self.known.away_count >= self.away_max:
            self.broker.counters.sessions_refused += 1
            detail = f"{self.known.away_count} sessions have no connection (broker.max_disconnected_sessions)"
            raise ProtocolError(detail, rc.QUOTA_EXCEEDED)
        pressure = self.broker.pressure
        if session is None and expiry_s > 0 and pressure.refuses_growth:
            pressure.growth_refused += 1
            raise ProtocolError("memory is short: no session begins that outlives its connection", rc.QUOTA_EXCEEDED)
        durability = self.durability
        is_durable = durability is not None and expiry_s > 0 and options.durable
        if durability is not None and session is None and not is_durable:
            durability.give_up(clientid, clean_start)
        if session is not None:
            if durability is not None and outbox is not None and isinstance(session, DurableSession):
                durability.add_barrier(outbox, durability.gathering, 0)
            self._end(session, hooks.SESSION_DISCARDED)  # [MQTT-3.1.2-4] 3.1.1 [MQTT-3.1.2-6]
        now = self.broker.now_us
        if durability is not None and is_durable:
            durability.begin(clientid)
        if session is None and clientid in self.known.asleep:
            self._on_due(_END, clientid)  # it lies on the disk, and its time is over before its timer says so
        if durability is not None and is_durable:
            session = DurableSession(clientid, self.broker, options, now, durability)
        else:
            session = Session(clientid, self.broker, options, now)  # [MQTT-3.1.2-6]
        session.expiry_interval_s = expiry_s
        self.known.begin(session)
        self._save(session, outbox)
        self.broker.counters.sessions_created += 1
        self.broker.hooks.run(hooks.SESSION_CREATED, (clientid,))
        return session, False  # [MQTT-3.2.2-2] 3.1.1 [MQTT-3.2.2-1] 3.1.1 [MQTT-3.2.2-3]

    def doze(self, clientid: str, expiry_s: i64, left_for_us: i64) -> None:
        self.known.find_asleep(clientid, expiry_s, self.broker.now_us - left_for_us)
        if expiry_s != EXPIRY_NEVER:
            self._push_timer(self.broker.uptime_us - left_for_us + expiry_s * 1_000_000, _END, clientid)

    def restore(self, session: Session, left_for_us: i64) -> None:
        clientid = session.clientid
        if clientid not in self.known.asleep:
            self.doze(clientid, session.expiry_interval_s, left_for_us)
        self.known.wake(session)

    def restore_will(self, clientid: str, will: Will) -> None:
        """A will was read from the disk; it is due at once if its session is over, or another one of it waits."""
        if self.known.absence(clientid) == 0 or self.wills.has_delayed(clientid):
            self.wills.leave(clientid, will)
            return
        self.wills.restore(clientid, will)
        self._push_timer(will.due_us, _WILL, clientid)

    def let_sleep(self, session: Session) -> None:
        """Let a session go from memory that is saved; its client is away."""
        self.known.let_sleep(session)

    def end_away(self, clientid: str) -> bool:
        """End the session of a client that is away, as if its time were over; whether there is one."""
        if self.known.absence(clientid) == 0:
            return False
        self._on_due(_END, clientid)
        return True

    def leave(self, session: Session, will: Will | None, end: str = hooks.SESSION_TERMINATED) -> None:
        """A client's connection is gone: its session ends now or after its expiry interval, its will likewise.

        Args:
            will: The will to publish, or None if there is none or DISCONNECT took it back [MQTT-3.1.2-10].
            end: The hook point that runs if its session ends now.
        """
        try:
            session.detach()  # [MQTT-4.1.0-1] 3.1.1 [MQTT-4.1.0-1] 3.1.1 [MQTT-4.1.0-2]
        except Exception as error:  # noqa: BLE001 - its will is published, and it ends in time, whatever it is
            self.broker.faults.contain(SESSIONS, error)
        now = self.broker.uptime_us
        expiry_s = session.expiry_interval_s
        kept: Will | None = None
        if isinstance(session, DurableSession):
            kept, session.will = session.will, None
        if will is not None and kept is not None:
            will.number = kept.number
        elif kept is not None:  # [MQTT-3.1.2-10]
            self.wills.forget(session.clientid, kept)
        if will is not None and (will.delay_s == 0 or expiry_s == 0):  # [MQTT-3.1.2-8] 3.1.1 [MQTT-3.1.2-8]
            self.wills.publish(session.clientid, will)
            will = None
        if expiry_s == 0:  # [MQTT-4.1.0-2] 3.1.1 [MQTT-3.1.2-6]
            self._end(session, end)
            return
        clientid = session.clientid
        self.known.depart(clientid)  # [MQTT-3.1.2-23] 3.1.1 [MQTT-3.1.2-4] 3.1.1 [MQTT-3.1.2-5]
        if will is not None:
            self.wills.delay(clientid, will, now + will.delay_s * 1_000_000)
            self._push_timer(will.due_us, _WILL, clientid)  # no longer than the session [MQTT-3.1.3-9]
        if expiry_s != EXPIRY_NEVER:
            self._push_timer(now + expiry_s * 1_000_000, _END, clientid)

    def expire(self, uptime_us: i64) -> None:
        """End the sessions and publish the wills that are due, so many at once; the rest waits for the next call."""
        if self._ending:
            self._drop_subscriptions(self._ending.pop())
        self.broker.expire_waits(uptime_us)
        count_max: i64 = _ENDS_AT_ONCE if self.durability is None else _SAVED_ENDS_AT_ONCE
        count = self.wills.publish_due(uptime_us, count_max)
        while self._timers and self._timers[0][0] <= uptime_us and count < count_max:
            count += 1
            _, absence, kind, clientid = heapq.heappop(self._timers)
            if self.known.absence(clientid) != absence:
                continue
            try:
                self._on_due(kind, clientid)
            except Exception as error:  # noqa: BLE001 - the others end when they are due, whatever it is
                self.known.forget(clientid)
                self.broker.faults.contain(SESSIONS, error)

    def _on_due(self, kind: i64, clientid: str) -> None:
        self.wills.end_delay(clientid)
        if kind != _END:
            return
        session = self.known.held.get(clientid)
        if session is None:
            self._end_asleep(clientid)  # [MQTT-4.1.0-2]
        else:
            self._end(session, hooks.SESSION_TERMINATED)  # [MQTT-4.1.0-2]

    def most_dropped(self, count: int) -> dict[str, int]:
        dropped = [(int(session.sender.dropped_count), clientid) for clientid, session in self.known.held.items()]
        return {clientid: number for number, clientid in heapq.nlargest(count, dropped) if number > 0}

    def statistics(self) -> dict[str, int]:
        return {"sessions.count": len(self), "sessions.away": self.known.away_count}

    def _save(self, session: Session, outbox: Outbox | None) -> None:
        durability = self.durability
        if durability is not None and outbox is not None and isinstance(session, DurableSession):
            durability.add_barrier(outbox, durability.save(session), 0)

    def _push_timer(self, due_us: int, kind: int, clientid: str) -> None:
        known = self.known
        if len(self._timers) > 4 * known.away_count + 1024:
            # A client that comes and goes would otherwise leave an entry for each of its absences.
            self._timers = [timer for timer in self._timers if known.absence(timer[3]) == timer[1]]
            heapq.heapify(self._timers)
        heapq.heappush(self._timers, (due_us, int(known.absence(clientid)), kind, clientid))

    def _end(self, session: Session, reason: str) -> None:
        clientid = session.clientid
        # Shared groups are left first: what it holds goes to other members.
        self._drop_subscriptions(session)
        try:
            session.close()  # 3.1.1 [MQTT-3.1.2-7]
        except Exception as error:  # noqa: BLE001 - the session is gone and its will is published, whatever it is
            self.broker.faults.contain(SESSIONS, error)
        self.known.forget(clientid)
        self.wills.end_delay(clientid)  # the end of the session ends the will's delay too [MQTT-3.1.2-8]
        if reason == hooks.SESSION_DISCARDED:
            self.broker.counters.sessions_discarded += 1
        else:
            self.broker.counters.sessions_terminated += 1
        self.broker.hooks.run(reason, (clientid,))

    def _drop_subscriptions(self, session: Session) -> None:
        try:
            is_done = session.drop_subscriptions(_SUBSCRIPTIONS_AT_ONCE)
        except Exception as error:  # noqa: BLE001 - its other subscriptions are dropped too, whatever it is
            self.broker.faults.contain(SESSIONS, error)
            is_done = not session.subscriptions
        if not is_done:
            self._ending.append(session)

    def _end_asleep(self, clientid: str) -> None:
        self.known.forget(clientid)
        if self.durability is not None:
            self.durability.end_asleep(clientid)
        self.broker.counters.sessions_terminated += 1
        self.broker.hooks.run(hooks.SESSION_TERMINATED, (clientid,))
