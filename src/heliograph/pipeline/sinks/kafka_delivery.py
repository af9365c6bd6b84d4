"""The messages of one micro-batch on their way to Kafka by librdkafka, and what the brokers answered."""

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.sinks.interface import INSTALL

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

_PARTITION_UNSET: Final = -1
_POLL_S: Final = 0.1

# What the producer would log is in its errors.
_SILENT: Final = logging.Logger("librdkafka", logging.CRITICAL)


class KafkaProducer:
    """A producer of librdkafka, for a ``with`` block, at whose end it forgets what it has not sent.

    Attributes:
        fault: Why it can send nothing any more; None while it can.
        last_error: What it said last of its connections.
    """

    def __init__(self, target: str, settings: Mapping[str, str | int | bool]) -> None:
        self.target = target
        self.fault: str | None = None
        self.last_error = ""
        self.client = self._make(settings)

    def __repr__(self) -> str:
        return f"KafkaProducer({self.target}, {len(self.client)} waiting)"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.purge()
        self.client.flush(_POLL_S)

    def check(self) -> None:
        """Raise `SinkError` if it can send nothing any more."""
        if self.fault is not None:
            raise SinkError(f"{self.target}: {self.fault}")

    def _make(self, settings: Mapping[str, str | int | bool]) -> "Producer":
        try:
            from confluent_kafka import KafkaException, Producer
        except ImportError as error:
            raise SinkError(f"Kafka needs confluent-kafka: {INSTALL}") from error
        try:
            return Producer({**settings, "error_cb": self._on_error}, logger=_SILENT)
        except KafkaException as error:
            raise SinkError(f"{self.target}: {error.args[0].str()}") from error

    def _on_error(self, error: "KafkaError") -> None:
        from confluent_kafka import KafkaError

        self.last_error = error.str()
        if error.fatal() or error.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL):
            self.fault = error.str()


class KafkaDelivery:
    """The messages of one batch on their way. Owned by the thread that sends them; callbacks run inside its calls.

    Attributes:
        refused: What is said of messages that will never be taken, by their numbers.
        suspects: Numbers of messages that a broker refused together with others, of which one is the cause; those of
            several partitions in no order.
        is_alone: Whether each message is a request of its own, so that what a broker says is of that message.
        has_topic_of_row: Whether rows say the topic, so that one which is not there, or is forbidden, is a row's fault.
    """

    def __init__(self, producer: KafkaProducer, *, is_alone: bool = False, has_topic_of_row: bool = False) -> None:
        self.count = 0
        self.bytes = 0
        self.refused: dict[int, str] = {}
        self.suspects: list[int] = []
        self._kept = producer
        self._producer = producer.client
        self._is_alone = is_alone
        self._has_topic_of_row = has_topic_of_row
        self._failed = 0
        self._failure = ""
        producer.last_error = ""

    def send(
        self,
        topics: Sequence[str],
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        headers: Sequence[list[tuple[str, bytes]] | None],
        partitions: Sequence[int | None],
        times: Sequence[int | None],
    ) -> None:
        """Hand messages to the producer; it blocks while the producer's queue is full."""
        for topic, key, value, header, partition, time_ms in zip(
            topics, keys, values, headers, partitions, times, strict=True
        ):
            arguments: dict[str, Any] = {"partition": _PARTITION_UNSET if partition is None else partition}
            if time_ms is not None and time_ms > 0:
                arguments["timestamp"] = time_ms
            if header:
                arguments["headers"] = header
            self._hand_over(topic, key, value, arguments)
            self.count += 1
            self.bytes += len(value or b"") + len(key or b"")
        self._producer.poll(0)
        self._kept.check()

    def finish(self, deadline_s: float) -> None:
        # The producer gives every message up by its own timeout; the rest is for its answers to be handed over.
        left = self._producer.flush(deadline_s + 10)
        self._kept.check()
        if self._failed or left:
            reason = self._failure or "no answer"
            said = self._kept.last_error
            hint = f"; {said}" if said and said != reason else ""
            missing = f"{self._failed + left} of {self.count} messages were not delivered"
            raise SinkError(f"{self._kept.target}: {missing}: {reason}{hint}")

    def _hand_over(self, topic: str, key: bytes | None, value: bytes | None, arguments: dict[str, Any]) -> None:
        from confluent_kafka import KafkaException

        report = partial(self._on_delivery, self.count)
        while True:
            try:
                self._producer.produce(topic, value=value, key=key, on_delivery=report, **arguments)
            except BufferError:
                self._producer.poll(_POLL_S)
                self._kept.check()
            except KafkaException as error:
                self._judge(self.count, error.args[0])
                self._kept.check()
                return
            except (ValueError, OverflowError) as error:  # a zero character in a topic, the number of a partition
                self.refused[self.count] = f"it cannot be sent: {error}"
                return
            else:
                return

    def _on_delivery(self, number: int, error: "KafkaError | None", message: "Message") -> None:
        if error is None:
            return
        if not self._is_alone and error.code() in _codes_of_requests():
            self.suspects.append(number)
        else:
            self._judge(number, error)

    def _judge(self, number: int, error: "KafkaError") -> None:
        from confluent_kafka import KafkaError

        of_messages = [KafkaError.TOPIC_EXCEPTION, KafkaError._UNKNOWN_PARTITION, KafkaError._INVALID_ARG]
        if self._has_topic_of_row:
            of_messages += [KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART]
            of_messages.append(KafkaError.TOPIC_AUTHORIZATION_FAILED)
        if error.code() in (*of_messages, *_codes_of_requests()):
            self.refused[number] = error.str()
        elif error.fatal():
            self._kept.fault = error.str()
        else:
            self._failed += 1
            self._failure = error.str()


def _codes_of_requests() -> tuple[int, ...]:
    """What a broker says of a request as a whole, however many messages of a partition are in it."""
    from confluent_kafka import KafkaError

    sizes = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE)
    return (*sizes, KafkaError.INVALID_RECORD, KafkaError.INVALID_MSG, KafkaError.INVALID_TIMESTAMP)
