"""A cluster of Kafka brokers to test against: the one that librdkafka has inside for its own tests."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from confluent_kafka import Consumer, Message, Producer

_DEADLINE_S = 30.0
_SILENT = logging.Logger("librdkafka", logging.CRITICAL)


@dataclass(frozen=True)
class KafkaCluster:
    """Where the brokers listen."""

    servers: str

    def read(self, topic: str, count: int) -> list[Message]:
        """So many messages of a topic from its beginning, by partition and offset."""
        consumer = Consumer(
            {"bootstrap.servers": self.servers, "group.id": f"test-{topic}", "auto.offset.reset": "earliest"}
        )
        try:
            consumer.subscribe([topic])
            messages: list[Message] = []
            end = time.monotonic() + _DEADLINE_S
            while len(messages) < count and time.monotonic() < end:
                messages += [message for message in consumer.consume(count, 1.0) if message.error() is None]
        finally:
            consumer.close()
        return sorted(messages, key=lambda message: (message.partition() or 0, message.offset() or 0))


@contextmanager
def kafka_cluster() -> Iterator[KafkaCluster]:
    """Three brokers until the block ends."""
    # They live as long as this producer does.
    holder = Producer({"bootstrap.servers": "unused", "test.mock.num.brokers": 3}, logger=_SILENT)
    brokers = holder.list_topics(timeout=_DEADLINE_S).brokers.values()
    yield KafkaCluster(",".join(f"{broker.host}:{broker.port}" for broker in brokers))
    holder.flush(0)
    del holder
