"""A durable session: a cursor in what is stored, beside a session in memory.

See docs/durable_sessions.md for the states that it is in and for the order of commits and packets. Two flags say where
it is: live (neither), `behind`, or `behind` and `catching`. While it is behind, stored messages pass it by, and whoever
keeps sessions replays them into `replay`, in the order of their commits.
"""

from typing import Final

from mypy_extensions import i64

from heliograph.broker.message import Message
from heliograph.broker.pubsub import Broker
from heliograph.broker.subscription import PARKED, UNLISTED, Subscription
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.topic import EXCLUSIVE_PREFIX
from heliograph.session.awaiting_rel import AwaitingRel
from heliograph.session.durability import Durability
from heliograph.session.durable_awaiting_rel import DurableAwaitingRel
from heliograph.session.group_delivery import GroupDelivery
from heliograph.session.mqueue import Delivery, MessageQueue, size_of
from heliograph.session.options import SessionOptions
from heliograph.session.outbox import Outbox
from heliograph.session.session import Session
from heliograph.session.will import Will

# What of stored messages waits in memory for a client that is connected, where the queue has no limit of its own.
_LIVE_QUEUE_MAX: Final = 1000
_LIVE_BYTES_MAX: Final = 67_108_864
# Ids of assigned messages that are remembered before the session looks whether they are below the head already; and
# how many it keeps while its queue does not get empty.
_RECENT: Final = 64
_RECENT_MAX: Final = 8192
# Subscriptions that are taken out of the routing table, or put into it again, at once: 1 ms.
_LISTED_AT_ONCE: Final = 512


class DurableSession(Session):
    """One client's session that outlives the broker; owned by the session table.

    Attributes:
        behind: Stored messages pass it by, to be replayed.
        catching: The replay is at its end, and new messages wait for the last commits.
        cursor_us: A commit time; what is stored up to it was assigned: sent under a packet identifier, or not for it.
        qos0_after_us: Messages at QoS 0 that were published up to then are not replayed: they may have been sent.
        left_us: When its client left, on the wall clock; 0 while it is connected.
        wanted: It waits for its turn at the replay.
        parked: The subscriptions whose messages are all stored are out of the routing table: nobody who publishes
            comes across it.
        touched: It has moved on since it was saved.
        made_us: Up to which commit time what is stored is older than a subscription; of those that may be younger than
            the cursor.
        taken: Ids above the cursor that were assigned before it fell behind, with their QoS.
        emitted: Ids above the cursor that were replayed.
    """

    def __init__(
        self, clientid: str, broker: Broker, options: SessionOptions, created_at_us: i64, durability: Durability
    ) -> None:
        super().__init__(clientid, broker, options, created_at_us)
        self.durability = durability
        self.behind = False
        self.catching = False
        self.cursor_us: i64 = durability.head_us
        self.qos0_after_us: i64 = 0
        self.left_us: i64 = 0
        self.wanted = False
        self.parked = False
        self.touched = False
        self.made_us: dict[str, int] = {}
        self.taken: dict[tuple[int, int], int] = {}
        self.emitted: list[tuple[int, int, int]] = []
        self.will_number: i64 = 0  # of the newest will that was saved for it
        self.will: Will | None = None  # that is saved while its client is connected
        self.has_lost = False  # messages in flight are to be recalled
        self._came_us: i64 = 0  # when its client did
        self._ignored: i64 = 0  # the newest ticket that passed it by
        self._frontier_us: i64 = 0  # the commit that is being replayed
        self._is_replaying = False
        self._recent: list[Delivery] = []  # assigned above the cursor while live
        self._recent_max: i64 = _RECENT
        self._recent_bytes: i64 = 0
        self._caught: dict[tuple[int, int], list[Delivery]] = {}  # by message id, in the order in which they came
        self._caught_bytes: i64 = 0
        self._listing: list[Subscription] | None = None  # those that are yet to be parked, or listed again
        self._is_unparking = False

    # --- the connection

    def on_attach(self) -> None:
        """A client comes back: what was in flight is read again, unless it never left memory."""
        self.recall()
        self.left_us = 0
        self._came_us = self.broker.now_us

    def recall(self) -> None:
        """Read what is in flight again, where it is not in memory; before CONNACK, since it may not be readable now."""
        if self.has_lost:
            self.durability.recall(self)
            self.has_lost = False

    def keeps_wills(self) -> bool:
        """Always, unless it ends with the connection."""
        return self.expiry_interval_s != 0

    def keep_will(self, will: Will | None) -> None:
        """Save the will; its CONNACK waits for that."""
        before, self.will = self.will, will
        if before is not None:
            self.durability.forget_will(self.clientid, before)
        if will is not None:
            self.will_number = max(self.will_number + 1, self.broker.now_us)
            will.number = self.will_number
            self._hold(self.durability.save_will(self.clientid, will))

    def has_backlog(self) -> bool:
        """Whether stored messages come before new ones."""
        return self.behind

    def resume(self) -> None:
        """As a session in memory does; what is in flight at QoS 2 waits for its commit again, if that is not done."""
        outbox = self._outbox
        if outbox is not None:
            newest: i64 = 0
            for delivery in self._inflight.values():
                if delivery.qos == 2:
                    newest = max(newest, delivery.message.ticket)
            self.durability.hold(outbox, 0, newest)
        super().resume()

    def detach(self) -> None:
        """The connection is gone; from now on stored messages pass it by."""
        if self._outbox is not None:
            if self.behind:
                self._stop_catching()
                self.on_interrupted()
            else:
                self._fall_behind()
            self.left_us = self.broker.now_us
            self._is_unparking = False
            if self.expiry_interval_s != 0:
                self._park()
                self.durability.save(self)
        super().detach()

    # --- towards the client

    def deliver(self, message: Message, subscription: Subscription) -> None:
        """As a session in memory does, unless it is behind and the message can be replayed."""
        if self.behind and message.ticket != 0 and not self.catching:
            self._ignored = max(self._ignored, message.ticket)  # one to very many may come behind newer ones
            return
        super().deliver(message, subscription)

    def deliver_retained(self, message: Message, subscription: Subscription) -> None:
        """As a session in memory does; it is a message of its own, which no replay would bring."""
        if message.ticket != 0:
            high, low = message.id_high, message.id_low
            publish, clientid, username = message.publish, message.clientid, message.username
            message = Message(high, low, message.topic, publish, clientid, username, message.expiry_s)
        super().deliver_retained(message, subscription)

    def pump(self) -> None:
        """Send what may be sent now, and ask for a turn at the replay."""
        super().pump()
        if self.behind and not self.wanted and self.has_room():
            self.durability.want(self)

    def replay(self, message: Message, stored_at_us: i64, subscription: Subscription) -> None:
        """Take the next message of the replay; `has_room` says whether it may come.

        Args:
            message: Its ticket says that it is stored.
            stored_at_us: The time of its commit, which never falls from call to call.
        """
        if stored_at_us <= self.cursor_us:  # a block may begin before the cursor
            return
        if stored_at_us > self._frontier_us:
            self._frontier_us = stored_at_us
            self.cursor_us = max(self.cursor_us, stored_at_us - 1)
            self.emitted = []
        qos = subscription.qos
        if message.qos < qos and not self.options.upgrade_qos:
            qos = message.qos
        key: tuple[int, int] = (message.id_high, message.id_low)
        self._caught.pop(key, None)  # its commit came meanwhile
        if self.taken.get(key, -1) >= qos:
            return
        if qos == 0 and message.id_high <= (self.qos0_after_us if self.options.mqueue_store_qos0 else self._came_us):
            return
        self.emitted.append((key[0], key[1], qos))
        if message.expired(self.broker.now_us):
            self._drop(message, "expired")
            return
        self._is_replaying = True
        super().deliver(message, subscription)
        self._is_replaying = False

    def on_interrupted(self) -> None:
        """The replay begins anew at the cursor: what was given above it counts as assigned."""
        for high, low, qos in self.emitted:
            self.note_taken(high, low, qos)
        self.emitted = []

    def note_taken(self, high: int, low: int, qos: int) -> None:
        """A message above the cursor was assigned; where subscriptions overlap, at the highest QoS of all of them."""
        key: tuple[int, int] = (high, low)
        self.taken[key] = max(self.taken.get(key, -1), qos)

    def on_replayed(self, head_us: i64, ticket: i64) -> bool:
        """Everything up to a commit time was replayed: it is live again if that is all that passed by.

        Args:
            ticket: The newest one that was committed at that time.

        Returns:
            Whether a commit must be awaited before there is more to replay.
        """
        self.cursor_us = max(self.cursor_us, head_us)
        self.emitted = []
        self.touch()
        if not self._unpark():
            return False  # another turn goes on with it
        if self._ignored <= ticket:
            self._go_live()
            return False
        self.catching = self._ignored > self.durability.head_ticket
        return self.catching

    def on_refused(self, packet_id: int, ticket: i64) -> None:
        """A message at QoS 2 is not stored: it must not be sent, since its publisher sends it again.

        It stands in the outbox with others behind it, so the connection goes with it; the client comes back to what is
        right.
        """
        delivery = self._inflight.get(packet_id)
        if delivery is None or delivery.qos != 2 or delivery.message.ticket != ticket:
            return
        del self._inflight[packet_id]
        if self._outbox is not None:
            self._outbox.abort()
        self.durability.save(self)

    def on_pubrec(self, packet_id: int, code: int) -> bool:
        """The client has a QoS 2 message, or refuses it; PUBREL waits until that is saved."""
        known = super().on_pubrec(packet_id, code)
        outbox = self._outbox
        if known and code < rc.UNSPECIFIED_ERROR and outbox is not None:
            self._inflight[packet_id].record = None  # it is in another phase
            self.durability.hold(outbox, self.durability.save(self), 0)
        return known

    # --- from the client

    @property
    def awaiting_rel(self) -> AwaitingRel:
        """The QoS 2 messages that it was sent and has not released."""
        return self.durable_awaiting_rel()

    def durable_awaiting_rel(self) -> DurableAwaitingRel:
        """The same, as what it is."""
        awaiting = self._awaiting_rel
        if not isinstance(awaiting, DurableAwaitingRel):
            awaiting = DurableAwaitingRel(self, self.durability)
            self._awaiting_rel = awaiting
        return awaiting

    # --- subscriptions

    def subscribe(self, name: str, subscription: Subscription) -> None:
        """Add a subscription; its SUBACK waits until it is saved."""
        super().subscribe(name, subscription)
        made_us: int = self.durability.head_us  # a commit time: unlike a clock it never goes back
        self.made_us[name] = made_us
        self.touch()
        self._hold(self.durability.save_subscription(self, name, subscription, made_us))

    def resubscribe(self, name: str, subscription: Subscription) -> None:
        """A subscription has other options now; its SUBACK waits until they are saved."""
        made_us = self.made_us.get(name, 0)
        self._hold(self.durability.save_subscription(self, name, subscription, made_us))

    def restore(self, name: str, subscription: Subscription, made_us: int) -> None:
        """A subscription was read from the disk."""
        self.subscriptions[name] = subscription
        if subscription.group:
            self.shared_count += 1
        self.made_us[name] = made_us
        if self._is_stored(subscription):
            self.parked = True
            self.broker.router.park(subscription)
        else:
            self.broker.subscribe(subscription)

    def unsubscribe(self, name: str) -> Subscription | None:
        """Drop a subscription; its UNSUBACK waits until that is saved."""
        subscription = super().unsubscribe(name)
        if subscription is not None:
            self.made_us.pop(name, None)
            self._hold(self.durability.forget_subscription(self, name))
        return subscription

    def drop_subscriptions(self, count_max: i64) -> bool:
        """Drop so many subscriptions at the most; whether none is left. What is left at the end, `close` forgets."""
        if not self._has_ended:
            for name in list(self.subscriptions)[-count_max:]:
                self.durability.forget_subscription(self, name)
        return super().drop_subscriptions(count_max)

    def close(self) -> None:
        """End the session, and what is on the disk of it."""
        awaiting = self._awaiting_rel
        if isinstance(awaiting, DurableAwaitingRel):
            awaiting.forget_all()
        super().close()
        self._caught = {}
        self._caught_bytes = 0
        self._recent = []
        self.durability.end(self)

    # --- being saved

    def touch(self) -> None:
        """It has moved on, and is to be saved some time."""
        if not self.touched:
            self.touched = True
            self.durability.touched.append(self)

    def assigned(self) -> list[tuple[int, int, int]]:
        """The ids above the cursor that were assigned, with their QoS; moves the cursor first if it can."""
        self._advance()
        if not self.behind and (self._queue is None or self._queue.count == 0):
            self.made_us = {}
        ids = [(high, low, qos) for (high, low), qos in self.taken.items()]
        for delivery in self._recent:
            ids.append((delivery.message.id_high, delivery.message.id_low, delivery.qos))
        return ids + self.emitted

    def inflight(self) -> dict[int, Delivery]:
        """What is in flight by packet identifier, in the order in which it was sent first."""
        return self._inflight

    @property
    def last_packet_id(self) -> int:
        """The last packet identifier that was given away."""
        return self._last_packet_id

    def restore_packet_id(self, packet_id: int) -> None:
        """Go on behind the last packet identifier that was given away before a restart."""
        self._last_packet_id = packet_id

    def may_sleep(self) -> bool:
        """Whether nothing of it is lost when it is let go from memory and read again for its client."""
        return (
            self._outbox is None
            and not self.touched
            and (self._queue is None or self._queue.count == 0)
            and all(subscription.slot == PARKED for subscription in self.subscriptions.values())
            and not any(name.startswith(EXCLUSIVE_PREFIX) for name in self.subscriptions)
        )

    def restore_inflight(self, packet_id: int, delivery: Delivery) -> None:
        """What was in flight before a restart is so again."""
        self._inflight[packet_id] = delivery

    # --- inside

    def _hold(self, state: i64) -> None:
        outbox = self._outbox
        if outbox is not None:
            self.durability.hold(outbox, state, 0)

    def _take(self, delivery: Delivery) -> None:
        message = delivery.message
        if not self.catching or self._is_replaying or message.ticket == 0 or delivery.subscription.group:
            super()._take(delivery)
        elif len(self._caught) < self._live_max() and self._caught_bytes <= self._live_bytes_max():
            self._caught.setdefault((message.id_high, message.id_low), []).append(delivery)
            self._caught_bytes += size_of(message)
        else:
            self._stop_catching()
            self._ignored = max(self._ignored, message.ticket)

    def _wait(self, delivery: Delivery) -> None:
        ticket = delivery.message.ticket
        if ticket == 0 or delivery.subscription.group:
            super()._wait(delivery)
            return
        queue = self._queue
        has_room = queue is None or (queue.count < self._live_max() and not queue.is_full(delivery.message))
        if self._outbox is not None and not self.behind and has_room:
            super()._wait(delivery)
            return
        if not self.behind:
            self._fall_behind()
        self._ignored = max(self._ignored, ticket)

    def _pump_qos0(self, outbox: Outbox, queue: MessageQueue) -> None:
        super()._pump_qos0(outbox, queue)
        self._passes_qos0 = self._passes_qos0 and not self.behind

    def _send_new(self, outbox: Outbox, delivery: Delivery) -> None:
        message = delivery.message
        delivery.after_us = delivery.stored_after_us if isinstance(delivery, GroupDelivery) else self.cursor_us
        if delivery.qos == 2:
            ticket: i64 = 0 if self._is_replaying else message.ticket
            if self.durability.is_refused(ticket):  # it waited in the queue; its publisher sends it again
                return
            self.durability.hold(outbox, self.durability.save(self), ticket)
            super()._send_new(outbox, delivery)
            self.durability.await_commit(self, int(self._last_packet_id), ticket)
        else:
            super()._send_new(outbox, delivery)
        if not self.behind and message.ticket != 0 and not delivery.subscription.group:
            self._recent.append(delivery)
            self._recent_bytes += len(message.publish.data)
            if len(self._recent) >= self._recent_max or self._recent_bytes > 2 * self._live_bytes_max():
                self._prune()
        self.touch()

    def _finish(self, packet_id: int, delivery: Delivery) -> None:
        super()._finish(packet_id, delivery)
        self.touch()
        if self.behind and not self.wanted and self.has_room():
            self.durability.want(self)

    def _live_max(self) -> i64:
        length = self.options.max_mqueue_len
        return length if 0 < length < _LIVE_QUEUE_MAX else _LIVE_QUEUE_MAX

    def _live_bytes_max(self) -> i64:
        size = self.options.max_mqueue_bytes
        return size if size > 0 else _LIVE_BYTES_MAX

    def _prune(self) -> None:
        if len(self._recent) >= _RECENT_MAX:
            self._fall_behind()
            return
        self._advance()
        if self._recent_bytes > self._live_bytes_max():
            self._fall_behind()
            return
        self._recent_max = min(2 * len(self._recent) + _RECENT, _RECENT_MAX)

    def _advance(self) -> None:
        """Move the cursor to the head, if all that was stored up to there is assigned."""
        queue = self._queue
        if self.behind or (queue is not None and queue.count > 0):
            return
        committed = self.durability.head_ticket
        self.cursor_us = max(self.cursor_us, self.durability.head_us)
        if self._recent:
            self._recent = [delivery for delivery in self._recent if delivery.message.ticket > committed]
            self._recent_bytes = 0
            for delivery in self._recent:
                self._recent_bytes += len(delivery.message.publish.data)

    def _fall_behind(self) -> None:
        """Let go what waits in memory and can be replayed, and all that comes."""
        self._advance()
        self.behind = True
        self._passes_qos0 = False
        self.qos0_after_us = self.broker.now_us
        for delivery in self._recent:
            self.note_taken(delivery.message.id_high, delivery.message.id_low, delivery.qos)
            self._ignored = max(self._ignored, delivery.message.ticket)
        self._recent = []
        self._recent_bytes = 0
        queue, self._queue = self._queue, None
        while queue is not None:
            waiting = queue.pop()
            if waiting is None:
                break
            if waiting.message.ticket == 0 or waiting.subscription.group:
                super()._wait(waiting)
            else:
                self._ignored = max(self._ignored, waiting.message.ticket)
        self.touch()

    def _is_stored(self, subscription: Subscription) -> bool:
        return not subscription.group and self.durability.covers(subscription.topic_filter)

    def park_some(self) -> bool:
        """Take some more subscriptions out of the routing table, unless its client is back; whether that is all.

        Nobody who publishes need come across them any more: what they miss is replayed. One that is still listed lets
        pass what can be replayed as well.
        """
        left = self._listing
        if left is None or self._outbox is not None:
            return True
        for _ in range(min(_LISTED_AT_ONCE, len(left))):
            subscription = left.pop()
            if subscription.slot >= 0 and self._is_stored(subscription):
                self.broker.router.park(subscription)
        if left:
            return False
        self._listing = None
        return True

    def _park(self) -> None:
        """Called while its client leaves."""
        self.parked = True
        self._outbox = None
        self._listing = list(self.subscriptions.values())
        if not self.park_some():
            self.durability.park(self)

    def _unpark(self) -> bool:
        """Put some more into the routing table again; whether all are: what is published from now on then comes.

        What was published meanwhile is to be replayed.
        """
        if not self.parked:
            return True
        if not self._is_unparking:
            self._is_unparking = True
            self._listing = list(self.subscriptions.values())
        left = self._listing or []
        for _ in range(min(_LISTED_AT_ONCE, len(left))):
            subscription = left.pop()
            if subscription.slot == PARKED:
                self.broker.router.unpark(subscription)
        if left:
            return False
        self._listing = None
        self._is_unparking = False
        self.parked = False
        self._ignored = max(self._ignored, self.broker.newest_ticket)
        return True

    def _stop_catching(self) -> None:
        for deliveries in self._caught.values():
            self._ignored = max(self._ignored, deliveries[0].message.ticket)
        self.catching = False
        self._caught = {}
        self._caught_bytes = 0

    def _go_live(self) -> None:
        caught, self._caught = self._caught, {}
        self._caught_bytes = 0
        self.behind = False
        self.catching = False
        self.taken = {}
        self.made_us = {}
        self._passes_qos0 = self._shares_encoding and not self._qos0_waits
        for deliveries in caught.values():
            for delivery in deliveries:
                # The replay passed over what came by a subscription that was dropped meanwhile, and gave what was
                # published later, by one that took its place.
                if delivery.subscription.slot == UNLISTED:
                    continue
                if self.behind:  # again: they are replayed
                    self._ignored = max(self._ignored, delivery.message.ticket)
                else:
                    super()._take(delivery)
        self.pump()
