"""A cluster of Kafka brokers to test against: the one that librdkafka has inside for its own tests."""

import ctypes
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import confluent_kafka
from confluent_kafka import Consumer, Message, Producer

_DEADLINE_S = 30.0
# librdkafka's number of a producer, and Kafka's of a request to produce.
_PRODUCER = 0
_PRODUCE = 0
_BROKER = 1
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
def refusing_broker(*answers: int) -> Iterator[KafkaCluster]:
    """One broker that answers its first requests to produce with these codes of errors, 0 for none."""
    with _own_broker() as (library, cluster, servers):
        codes = (ctypes.c_int * len(answers))(*answers)
        library.rd_kafka_mock_push_request_errors_array(
            cluster, ctypes.c_int16(_PRODUCE), ctypes.c_size_t(len(answers)), codes
        )
        yield KafkaCluster(servers)


class StoppableBroker:
    """One broker, which can be away. It keeps its messages meanwhile."""

    def __init__(self, library: ctypes.CDLL, cluster: ctypes.c_void_p, servers: str) -> None:
        self.servers = servers
        self._library = library
        self._cluster = cluster

    def be_away(self, seconds: float) -> None:
        """Close all connections, and take none for so long."""
        broker = ctypes.c_int32(_BROKER)
        self._library.rd_kafka_mock_broker_set_down(self._cluster, broker)
        time.sleep(seconds)  # this is how long it is away
        self._library.rd_kafka_mock_broker_set_up(self._cluster, broker)

    def __repr__(self) -> str:
        return f"StoppableBroker({self.servers})"


@contextmanager
def stoppable_broker() -> Iterator[StoppableBroker]:
    """One broker until the block ends."""
    with _own_broker() as (library, cluster, servers):
        yield StoppableBroker(library, cluster, servers)


@contextmanager
def _own_broker() -> Iterator[tuple[ctypes.CDLL, ctypes.c_void_p, str]]:
    folder = Path(confluent_kafka.__file__).parent.with_name("confluent_kafka.libs")
    library = ctypes.CDLL(str(next(folder.glob("librdkafka*.so*"))))
    for name in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_mock_cluster_new"):
        getattr(library, name).restype = ctypes.c_void_p
    library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    text = ctypes.create_string_buffer(512)
    configuration = ctypes.c_void_p(library.rd_kafka_conf_new())
    client = ctypes.c_void_p(library.rd_kafka_new(_PRODUCER, configuration, text, ctypes.c_size_t(len(text))))
    cluster = ctypes.c_void_p(library.rd_kafka_mock_cluster_new(client, 1))
    try:
        yield library, cluster, library.rd_kafka_mock_cluster_bootstraps(cluster).decode()
    finally:
        library.rd_kafka_mock_cluster_destroy(cluster)
        library.rd_kafka_destroy(client)


@contextmanager
def kafka_cluster() -> Iterator[KafkaCluster]:
    """Three brokers until the block ends."""
    # They live as long as this producer does.
    holder = Producer({"bootstrap.servers": "unused", "test.mock.num.brokers": 3}, logger=_SILENT)
    brokers = holder.list_topics(timeout=_DEADLINE_S).brokers.values()
    yield KafkaCluster(",".join(f"{broker.host}:{broker.port}" for broker in brokers))
    holder.flush(0)
    del holder
