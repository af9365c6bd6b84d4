"""What a durable session has yet to get of the stored messages: it takes them live, or has them replayed.

Two flags say where it is: live (neither), `behind`, or `behind` and `catching`. While it is behind, stored messages
pass it by, and a replay brings them later, in the order of their commits.
"""

from typing import Final

from mypy_extensions import i64

from heliograph.broker.message import Message
from heliograph.broker.subscription import UNLISTED, Subscription
from heliograph.broker.tracer import LEFT_TO_REPLAY
from heliograph.session.backlog import Backlog
from heliograph.session.cursor import Beginning, Caught, Cursor
from heliograph.session.durability import Durability
from heliograph.session.group_delivery import GroupDelivery
from heliograph.session.mqueue import Delivery
from heliograph.session.outbox import Outbox
from heliograph.session.session import Session

# What of stored messages waits in memory for a client that is connected, where the queue has no limit of its own.
_LIVE_QUEUE_MAX: Final = 1000
_LIVE_BYTES_MAX: Final = 67_108_864


class StoredBacklog(Backlog):
    """The stored messages of one durable session; owned by it.

    Attributes:
        cursor: What of the stored messages was assigned: sent under a packet identifier, or not for it.
        qos0_after_us: Messages at QoS 0 that were published up to then are not replayed: they may have been sent.
        wanted: It waits for its turn at the replay.
        touched: It has moved on since the session was saved.
        is_replaying: A message of the replay is being delivered.
        beginnings: Where subscriptions begin, of those that may be younger than the cursor.
    """

    def __init__(self, session: Session, durability: Durability) -> None:
        super().__init__()
        self.cursor = Cursor(durability.head_us)
        self.qos0_after_us: i64 = 0
        self.came_us: i64 = 0
        self.wanted = False
        self.touched = False
        self.is_replaying = False
        self.beginnings: dict[str, Beginning] = {}
        self._session: Session | None = session  # None when it has ended
        self._durability = durability
        self._broker = session.broker
        self._sender = session.sender
        self._begun_ticket: i64 = 0  # the newest that was under way when one of the beginnings was made
        self._ignored: i64 = 0  # the newest ticket that passed it by
        self._caught: Caught | None = None  # made with the first message that comes while it is catching

    def touch(self) -> None:
        """It has moved on, and its session is to be saved some time."""
        session = self._session
        if not self.touched and session is not None:
            self.touched = True
            self._durability.touched.append(session)

    def want_turn(self) -> None:
        session = self._session
        if self.behind and not self.wanted and session is not None and self._sender.has_room():
            self._durability.want(session)

    def end(self) -> None:
        self._session = None
        self._caught = None

    # --- live

    def passes_by(self, message: Message, subscription: Subscription) -> bool:
        """Whether a message that is delivered now is left to the replay."""
        if not self.behind or message.ticket == 0 or self.catching:
            return False
        self._leave(message, subscription)
        return True

    def catches(self, delivery: Delivery) -> bool:
        if self.is_replaying or not _is_stored(delivery):
            return False
        caught = self._caught
        if caught is None:
            caught = Caught()
            self._caught = caught
        if len(caught) < self._live_max() and caught.size_bytes <= self._live_bytes_max():
            caught.add(delivery)
        else:
            self.stop_catching()
            self.ignore(delivery.message.ticket)
        return True

    def leaves(self, delivery: Delivery) -> bool:
        if not _is_stored(delivery):
            return False
        sender = self._sender
        queue = sender.queue
        has_room = queue is None or (queue.count < self._live_max() and not queue.is_full(delivery.message))
        if sender.outbox is not None and not self.behind and has_room:
            return False
        if not self.behind:
            self.fall_behind()
        self._leave(delivery.message, delivery.subscription)
        return True

    def before_sending(self, outbox: Outbox, delivery: Delivery) -> bool:
        """At QoS 2, nothing leaves before message and session are saved."""
        delivery.after_us = delivery.stored_after_us if isinstance(delivery, GroupDelivery) else self.cursor.at_us
        session = self._session
        if delivery.qos == 2 and session is not None:
            ticket = self._awaited(delivery)
            if self._durability.is_refused(ticket):  # it waited in the queue; its publisher sends it again
                return False
            self._durability.add_barrier(outbox, self._durability.save(session), ticket)
        return True

    def after_sending(self, packet_id: i64, delivery: Delivery) -> None:
        session = self._session
        if delivery.qos == 2 and session is not None:
            self._durability.await_commit(session, int(packet_id), self._awaited(delivery))
        if not self.behind and _is_stored(delivery):
            looks = self.cursor.add(delivery)
            if looks or self.cursor.recent_bytes > 2 * self._live_bytes_max():
                self._prune()
        self.touch()

    def assigned(self) -> list[tuple[int, int, int]]:
        """The ids above the cursor that were assigned, with their QoS; moves the cursor first if it can."""
        self._advance()
        is_assigned = not self.behind and self._sender.queued_count == 0
        if is_assigned and self._begun_ticket <= self._durability.head_ticket:
            self.beginnings = {}
        return self.cursor.assigned()

    def begin(self, name: str) -> Beginning:
        """A subscription is made now: where it begins."""
        broker, durability = self._broker, self._durability
        received_us: i64 = 0
        if broker.newest_ticket > durability.head_ticket:  # commits are under way
            received_us = broker.split_turn()
            self._begun_ticket = broker.newest_ticket
        beginning = Beginning(durability.head_us, received_us, 0)
        self.beginnings[name] = beginning
        self.touch()
        return beginning

    # --- behind

    def takes(self, message: Message, stored_at_us: i64, qos: i64) -> bool:
        """Whether the next message of the replay is for the session; it is assigned then."""
        cursor = self.cursor
        if not cursor.reach(stored_at_us):  # a block may begin before the cursor
            return False
        key: tuple[int, int] = (message.id_high, message.id_low)
        if self._caught is not None:
            self._caught.forget(key)
        if cursor.is_taken(key, qos):
            return False
        stores_qos0 = self._sender.options.mqueue_store_qos0
        if qos == 0 and message.id_high <= (self.qos0_after_us if stores_qos0 else self.came_us):
            return False
        cursor.emit(key, qos)
        return True

    def ignore(self, ticket: i64) -> None:
        """A message passed it by; one to very many may come after newer ones."""
        self._ignored = max(self._ignored, ticket)

    def on_interrupted(self) -> None:
        self.cursor.interrupt()

    def on_replayed(self, ticket: i64) -> bool:
        """Everything was replayed up to a ticket: it is live again if that is all that passed by.

        Returns:
            Whether a commit must be awaited before there is more to replay.
        """
        if self._ignored <= ticket:
            self._go_live()
            return False
        self.catching = self._ignored > self._durability.head_ticket
        return self.catching

    def fall_behind(self) -> None:
        """Let go what waits in memory and can be replayed, and all that comes."""
        sender = self._sender
        self._advance()
        self.behind = True
        sender.direct = None
        self.qos0_after_us = self._broker.now_us
        self.ignore(self.cursor.fall_behind())
        for delivery in sender.empty_queue():
            if _is_stored(delivery):
                self._leave(delivery.message, delivery.subscription)
            else:
                sender.enqueue(delivery)
        self.touch()

    def stop_catching(self) -> None:
        """Leave what was caught, and all that comes, to the replay."""
        caught, self._caught = self._caught, None
        if caught is not None:
            self.ignore(caught.newest_ticket())
        self.catching = False

    # --- inside

    def _leave(self, message: Message, subscription: Subscription) -> None:
        self.ignore(message.ticket)
        if message.is_traced or self._sender.is_traced:
            self._sender.trace(message, subscription, LEFT_TO_REPLAY)

    def _awaited(self, delivery: Delivery) -> i64:
        """The commit that a message at QoS 2 waits for; what is replayed is committed."""
        return 0 if self.is_replaying else delivery.message.ticket

    def _live_max(self) -> i64:
        length = self._sender.options.max_mqueue_len
        return length if 0 < length < _LIVE_QUEUE_MAX else _LIVE_QUEUE_MAX

    def _live_bytes_max(self) -> i64:
        size = self._sender.options.max_mqueue_bytes
        return size if size > 0 else _LIVE_BYTES_MAX

    def _prune(self) -> None:
        cursor = self.cursor
        if cursor.is_overfull():
            self.fall_behind()
            return
        self._advance()
        if cursor.recent_bytes > self._live_bytes_max():
            self.fall_behind()
            return
        cursor.widen()

    def _advance(self) -> None:
        """Move the cursor to the head, if all that was stored up to there is assigned."""
        if not self.behind and self._sender.queued_count == 0:
            self.cursor.advance(self._durability.head_us, self._durability.head_ticket)

    def _go_live(self) -> None:
        caught, self._caught = self._caught, None
        self.behind = False
        self.catching = False
        self.cursor.go_live()
        self._sender.open_direct()
        for delivery in [] if caught is None else caught.in_order():
            # The replay passed over what came by a subscription that was dropped meanwhile, and gave what was
            # published later, by one that took its place.
            if delivery.subscription.slot == UNLISTED:
                continue
            if self.behind:  # again: they are replayed
                self.ignore(delivery.message.ticket)
            else:
                self._sender.take(delivery)
        if self._session is not None:
            self._session.pump()


def _is_stored(delivery: Delivery) -> bool:
    """Whether a replay would bring a message; those of shared groups come from the group."""
    return delivery.message.ticket != 0 and not delivery.subscription.group
