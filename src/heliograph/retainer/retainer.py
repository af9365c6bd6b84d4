"""What is retained, wherever it is kept: the operator's limits, expiry, and what happens to a message beyond them.

`memory` and `disk` keep the messages and find them. How matches reach a client is decided by its channel.
"""

from collections.abc import Callable
from typing import Final

from mypy_extensions import mypyc_attr

from heliograph.broker.allowance import Allowance
from heliograph.broker.message import NEVER, Message
from heliograph.broker.pubsub import Broker
from heliograph.broker.retained import RetainedMatches, RetainedStore
from heliograph.retainer.options import RetainerOptions
from heliograph.storage.errors import StorageError

US: Final = 1_000_000
# Work in deliveries (`Broker.work`).
READ_WORK: Final = 64
_MADE_ROOM_MAX: Final = 64
INDEX_READY: Final = "ready"
INDEX_BUILDING: Final = "building"
INDEX_OFF: Final = "off"


@mypyc_attr(allow_interpreted_subclasses=True)
class Retainer(RetainedStore):
    """The retained messages of one node; owned by the node.

    Whatever keeps a message from being retained also makes the one before it forgotten: a subscriber to come gets
    nothing rather than a state that is no longer true.

    Attributes:
        read_expires_us: When the message that was read last expires, in microseconds since the epoch; 0 for never.
    """

    def __init__(self, broker: Broker, options: RetainerOptions) -> None:
        super().__init__(options.batch_deliver_number, options.delivery_rate)
        self.broker = broker
        self.read_expires_us = 0
        self._options = options
        self._publish_allowance = _allowance(options)
        self._count_max = 0
        self._dropped_full = 0
        self._dropped_payload_size = 0
        self._dropped_rate = 0
        self._dropped_memory = 0
        self._expired = 0
        self._unkept = ""

    def use(self, options: RetainerOptions) -> None:
        if options.max_publish_rate != self._options.max_publish_rate:
            self._publish_allowance = _allowance(options)
        self._options = options
        self.batch_deliver_number = options.batch_deliver_number
        self.delivery_rate = options.delivery_rate

    def __len__(self) -> int:
        raise NotImplementedError(type(self).__name__)

    def retain(self, message: Message) -> bool:
        publish = message.publish
        payload_bytes = len(publish.data) - publish.payload_at
        if payload_bytes == 0:
            self._unkept = "cleared"
            self._forget(message)  # [MQTT-3.3.1-6] [MQTT-3.3.1-7] 3.1.1 [MQTT-3.3.1-11] 3.1.1 [MQTT-3.3.1-10]
            return not self._options.stop_publish_clear_msg  # 3.1.1 [MQTT-3.3.1-10]
        if payload_bytes > self._options.max_payload_size:
            self._dropped_payload_size += 1
            self._unkept = "payload_size"
            self._forget(message)
        elif self._is_too_fast():
            self._dropped_rate += 1
            self._unkept = "rate"
            self._forget(message)
        elif self._has_too_many_bytes(message):
            self._dropped_full += 1
            self._unkept = "full"
            self._forget(message)
        elif self.broker.pressure.refuses_growth and not self._may_grow(message):
            self._dropped_memory += 1
            self._unkept = "memory"
            self._forget(message)
        elif self._keep(message, self._expires_us(message)):
            self._count_max = max(self._count_max, len(self))
            self._unkept = ""
        else:
            self._dropped_full += 1
            self._unkept = "full"
        return True

    def why_unkept(self) -> str:
        return self._unkept

    def sweep(self, count_max: int = 2000) -> int:
        """Forget messages that have expired, after looking at so many at the most; how many it were."""
        raise NotImplementedError(type(self).__name__)

    def listing(self, topic_filter: str) -> RetainedMatches:
        """The retained messages whose topics a filter matches, also those that are retained while they are read."""
        raise NotImplementedError(type(self).__name__)

    def remove(self, topic: str) -> bool:
        """Forget the message of a topic; whether it had one."""
        raise NotImplementedError(type(self).__name__)

    def when_durable(self, then: Callable[[StorageError | None], object]) -> None:
        """Call a function when all changes so far are where they are kept, or with why they are not."""
        then(None)

    def reindex(self) -> bool:
        """Rebuild what is remembered to make lookups cheaper, step by step; False if there is no such thing."""
        return False

    def index_state(self) -> str:
        """How far that is, in a word: `ready`, `building`, or `off` where the disk is asked for each lookup."""
        return INDEX_READY

    def learn(self) -> bool:
        """Do a bounded step of the work that makes lookups cheaper; returns whether there is more."""
        return False

    def statistics(self) -> dict[str, int]:
        return {
            "retained.count": len(self),
            "retained.limit": self._count_max,
            "retained.bytes": self._size_bytes(),
            "retained.expired": self._expired,
            "retained.dropped.full": self._dropped_full,
            "retained.dropped.payload_size": self._dropped_payload_size,
            "retained.dropped.publish_rate": self._dropped_rate,
            "retained.dropped.memory": self._dropped_memory,
        }

    # --- for implementations

    def _keep(self, message: Message, expires_us: int) -> bool:
        """Make a message the one of its topic; False if it would be one too many."""
        raise NotImplementedError(type(self).__name__)

    def _forget(self, message: Message) -> None:
        raise NotImplementedError(type(self).__name__)

    def _size_bytes(self) -> int:
        raise NotImplementedError(type(self).__name__)

    def _may_grow(self, message: Message) -> bool:
        """Whether a message may take more memory than its topic's has; asked while that is refused to some."""
        return True

    def _known_bytes(self, message: Message) -> int:
        """How many of them the message has that the topic of `message` has, 0 for none."""
        raise NotImplementedError(type(self).__name__)

    def _has_room(self) -> bool:
        count_max = self._options.max_retained_messages
        return count_max == 0 or len(self) < count_max or self.sweep(_MADE_ROOM_MAX) > 0

    def _has_too_many_bytes(self, message: Message) -> bool:
        """Whether a message makes all of them too large; one that is no larger than what it replaces never does."""
        bytes_max = self._options.max_retained_bytes
        size_bytes = len(message.publish.data)
        if bytes_max == 0 or self._size_bytes() + size_bytes <= bytes_max:
            return False
        self.sweep(_MADE_ROOM_MAX)
        growth = size_bytes - self._known_bytes(message)
        return growth > 0 and self._size_bytes() + growth > bytes_max

    def _is_too_fast(self) -> bool:
        allowance, now_us = self._publish_allowance, self.broker.uptime_us
        if allowance is None:
            return False
        if allowance.is_spent(now_us):
            return True
        allowance.take(now_us)
        return False

    def _expires_us(self, message: Message) -> int:
        options = self._options
        interval_us = options.msg_expiry_interval_us
        if options.msg_expiry_interval_override_us is not None:
            interval_us = options.msg_expiry_interval_override_us
        elif message.expiry_s != NEVER:
            return message.id_high + message.expiry_s * US
        return message.id_high + interval_us if interval_us else 0


def _allowance(options: RetainerOptions) -> Allowance | None:
    rate = options.max_publish_rate
    return None if rate is None else Allowance(rate[0], rate[1])
