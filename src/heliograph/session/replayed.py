"""A session with a cursor in what is stored: what it misses is replayed to it, in the order of commits.

Two flags say where it is: live (neither), `behind`, or `behind` and `catching`. While it is behind, stored messages
pass it by, and `replay` brings them later. How it is saved stands in `durable`.
"""

from typing import Final

from mypy_extensions import i64

from heliograph.broker.message import Message
from heliograph.broker.pubsub import Broker
from heliograph.broker.subscription import UNLISTED, Subscription
from heliograph.broker.tracer import LEFT_TO_REPLAY, REPLAYED
from heliograph.session.cursor import Beginning, Caught, Cursor
from heliograph.session.durability import Durability
from heliograph.session.mqueue import Delivery
from heliograph.session.options import SessionOptions
from heliograph.session.sender import trace_delivery
from heliograph.session.session import Session

# What of stored messages waits in memory for a client that is connected, where the queue has no limit of its own.
_LIVE_QUEUE_MAX: Final = 1000
_LIVE_BYTES_MAX: Final = 67_108_864


class ReplayedSession(Session):
    """The half of a durable session, which is its only subclass, that takes messages live or by replay.

    Attributes:
        behind: Stored messages pass it by, to be replayed.
        catching: The replay is at its end, and new messages wait for the last commits.
        cursor: What of the stored messages was assigned: sent under a packet identifier, or not for it.
        qos0_after_us: Messages at QoS 0 that were published up to then are not replayed: they may have been sent.
        wanted: It waits for its turn at the replay.
        touched: It has moved on since it was saved.
        beginnings: Where subscriptions begin, of those that may be younger than the cursor.
    """

    def __init__(
        self, clientid: str, broker: Broker, options: SessionOptions, created_at_us: i64, durability: Durability
    ) -> None:
        super().__init__(clientid, broker, options, created_at_us)
        self.durability = durability
        self.behind = False
        self.catching = False
        self.cursor = Cursor(durability.head_us)
        self.qos0_after_us: i64 = 0
        self.wanted = False
        self.touched = False
        self.beginnings: dict[str, Beginning] = {}
        self._begun_ticket: i64 = 0  # the newest that was under way when one of these was made
        self._came_us: i64 = 0  # when its client did
        self._ignored: i64 = 0  # the newest ticket that passed it by
        self._is_replaying = False
        self._caught: Caught | None = None  # made with the first message that comes while it is catching

    # --- live

    def has_backlog(self) -> bool:
        """Whether stored messages come before new ones."""
        return self.behind

    def deliver(self, message: Message, subscription: Subscription) -> None:
        """As a session in memory does, unless it is behind and the message can be replayed."""
        if self.behind and message.ticket != 0 and not self.catching:
            self._ignored = max(self._ignored, message.ticket)  # one to very many may come behind newer ones
            if message.is_traced or self.is_traced:
                trace_delivery(self, message, subscription, LEFT_TO_REPLAY)
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

    def touch(self) -> None:
        """It has moved on, and is to be saved some time."""
        if not self.touched:
            self.touched = True
            self.durability.touched.append(self)

    def assigned(self) -> list[tuple[int, int, int]]:
        """The ids above the cursor that were assigned, with their QoS; moves the cursor first if it can."""
        self._advance()
        is_assigned = not self.behind and (self.queue is None or self.queue.count == 0)
        if is_assigned and self._begun_ticket <= self.durability.head_ticket:
            self.beginnings = {}
        return self.cursor.assigned()

    # --- behind

    def replay(self, message: Message, stored_at_us: i64, subscription: Subscription) -> None:
        """Take the next message of the replay; `has_room` says whether it may come.

        Args:
            message: Its ticket says that it is stored.
            stored_at_us: The time of its commit, which never falls from call to call.
        """
        cursor = self.cursor
        if not cursor.reach(stored_at_us):  # a block may begin before the cursor
            return
        qos = subscription.qos
        if message.qos < qos and not self.options.upgrade_qos:
            qos = message.qos
        key: tuple[int, int] = (message.id_high, message.id_low)
        if self._caught is not None:
            self._caught.forget(key)
        if cursor.is_taken(key, qos):
            return
        if qos == 0 and message.id_high <= (self.qos0_after_us if self.options.mqueue_store_qos0 else self._came_us):
            return
        cursor.emit(key, qos)
        if self.broker.tracer is not None and self.broker.tracer.wants_stored:
            self.broker.tracer.follow(message, REPLAYED)
        if message.expired(self.broker.now_us):
            self.drop(message, "expired", subscription)
            return
        self._is_replaying = True
        try:
            super().deliver(message, subscription)
        finally:
            self._is_replaying = False

    def on_interrupted(self) -> None:
        """The replay starts again at the cursor: what was given above it counts as assigned."""
        self.cursor.interrupt()

    def on_replayed(self, head_us: i64, ticket: i64) -> bool:
        """Everything up to a commit time was replayed: it is live again if that is all that passed by.

        Args:
            ticket: The newest one that was committed at that time.

        Returns:
            Whether a commit must be awaited before there is more to replay.
        """
        self.cursor.replayed(head_us)
        self.touch()
        if not self._relist():
            return False  # another turn goes on with it
        if self._ignored <= ticket:
            self._go_live()
            return False
        self.catching = self._ignored > self.durability.head_ticket
        return self.catching

    # --- inside

    def _begin(self, name: str) -> Beginning:
        """A subscription is made now: where it begins."""
        broker, durability = self.broker, self.durability
        received_us: i64 = 0
        if broker.newest_ticket > durability.head_ticket:  # commits are under way
            received_us = broker.split_turn()
            self._begun_ticket = broker.newest_ticket
        beginning = Beginning(durability.head_us, received_us, 0)
        self.beginnings[name] = beginning
        self.touch()
        return beginning

    def _relist(self) -> bool:
        """Put its subscriptions into the routing table again; return whether all are there."""
        return True

    def _take(self, delivery: Delivery) -> None:
        message = delivery.message
        if not self.catching or self._is_replaying or message.ticket == 0 or delivery.subscription.group:
            super()._take(delivery)
            return
        caught = self._caught
        if caught is None:
            caught = Caught()
            self._caught = caught
        if len(caught) < self._live_max() and caught.size_bytes <= self._live_bytes_max():
            caught.add(delivery)
        else:
            self._stop_catching()
            self._ignored = max(self._ignored, message.ticket)

    def _wait(self, delivery: Delivery) -> None:
        ticket = delivery.message.ticket
        if ticket == 0 or delivery.subscription.group:
            super()._wait(delivery)
            return
        queue = self.queue
        has_room = queue is None or (queue.count < self._live_max() and not queue.is_full(delivery.message))
        if self.outbox is not None and not self.behind and has_room:
            super()._wait(delivery)
            return
        if not self.behind:
            self._fall_behind()
        self._ignored = max(self._ignored, ticket)
        if delivery.message.is_traced or self.is_traced:
            trace_delivery(self, delivery.message, delivery.subscription, LEFT_TO_REPLAY)

    def _finish(self, packet_id: int, delivery: Delivery) -> None:
        super()._finish(packet_id, delivery)
        self.touch()
        if self.behind and not self.wanted and self.has_room():
            self.durability.want(self)

    def _note_sent(self, delivery: Delivery) -> None:
        """A message was sent, or found to be none that the client can have."""
        message = delivery.message
        if not self.behind and message.ticket != 0 and not delivery.subscription.group:
            looks = self.cursor.add(delivery)
            if looks or self.cursor.recent_bytes > 2 * self._live_bytes_max():
                self._prune()
        self.touch()

    def _live_max(self) -> i64:
        length = self.options.max_mqueue_len
        return length if 0 < length < _LIVE_QUEUE_MAX else _LIVE_QUEUE_MAX

    def _live_bytes_max(self) -> i64:
        size = self.options.max_mqueue_bytes
        return size if size > 0 else _LIVE_BYTES_MAX

    def _prune(self) -> None:
        cursor = self.cursor
        if cursor.is_overfull():
            self._fall_behind()
            return
        self._advance()
        if cursor.recent_bytes > self._live_bytes_max():
            self._fall_behind()
            return
        cursor.widen()

    def _advance(self) -> None:
        """Move the cursor to the head, if all that was stored up to there is assigned."""
        queue = self.queue
        if not self.behind and (queue is None or queue.count == 0):
            self.cursor.advance(self.durability.head_us, self.durability.head_ticket)

    def _fall_behind(self) -> None:
        """Let go what waits in memory and can be replayed, and all that comes."""
        self._advance()
        self.behind = True
        self._direct = None
        self.qos0_after_us = self.broker.now_us
        self._ignored = max(self._ignored, self.cursor.fall_behind())
        queue, self.queue = self.queue, None
        while queue is not None:
            waiting = queue.pop()
            if waiting is None:
                break
            if waiting.message.ticket == 0 or waiting.subscription.group:
                super()._wait(waiting)
            else:
                self._ignored = max(self._ignored, waiting.message.ticket)
                if waiting.message.is_traced or self.is_traced:
                    trace_delivery(self, waiting.message, waiting.subscription, LEFT_TO_REPLAY)
        self.touch()

    def _stop_catching(self) -> None:
        caught, self._caught = self._caught, None
        if caught is not None:
            self._ignored = max(self._ignored, caught.newest_ticket())
        self.catching = False

    def _go_live(self) -> None:
        caught, self._caught = self._caught, None
        self.behind = False
        self.catching = False
        self.cursor.go_live()
        self._open_direct()
        for delivery in [] if caught is None else caught.in_order():
            # The replay passed over what came by a subscription that was dropped meanwhile, and gave what was
            # published later, by one that took its place.
            if delivery.subscription.slot == UNLISTED:
                continue
            if self.behind:  # again: they are replayed
                self._ignored = max(self._ignored, delivery.message.ticket)
            else:
                super()._take(delivery)
        self.pump()
