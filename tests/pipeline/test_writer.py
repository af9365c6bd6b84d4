"""The sink `heliograph`: rows published to a real MQTT broker (mosquitto as the peer)."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from heliograph.pipeline.datasource.publisher import MqttPublisher
from heliograph.pipeline.datasource.sink_options import SinkOptions
from heliograph.pipeline.errors import OptionError, PublishError
from support.raw_server import listening
from support.waiting import wait_until

pytestmark = [pytest.mark.service, pytest.mark.slow]


class Subscriber:
    """Collects what is published to a topic filter."""

    def __init__(self, address: tuple[str, int], topic_filter: str) -> None:
        self.messages: list[MQTTMessage] = []
        self._changed = threading.Condition()
        subscribed = threading.Event()
        self._client = Client(CallbackAPIVersion.VERSION2, protocol=MQTTProtocolVersion.MQTTv5)
        self._client.on_subscribe = lambda *_: subscribed.set()
        self._client.on_message = lambda client, data, message: self._take(message)
        self._client.connect(*address)
        self._client.loop_start()
        self._client.subscribe(topic_filter, qos=2)
        assert subscribed.wait(20)

    def wait_for(self, count: int, deadline_s: float = 20) -> list[MQTTMessage]:
        end = time.monotonic() + deadline_s
        with self._changed:
            while len(self.messages) < count and time.monotonic() < end:
                self._changed.wait(end - time.monotonic())
            return list(self.messages)

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def _take(self, message: MQTTMessage) -> None:
        with self._changed:
            self.messages.append(message)
            self._changed.notify_all()


@contextmanager
def _subscribed(address: tuple[str, int], topic_filter: str) -> Iterator[Subscriber]:
    subscriber = Subscriber(address, topic_filter)
    try:
        yield subscriber
    finally:
        subscriber.close()


def test_every_row_of_a_table_is_published(spark: SparkSession, mosquitto: tuple[str, int]) -> None:
    host, port = mosquitto
    rows = spark.range(2000).selectExpr("concat('t/', id % 10) AS topic", "cast(id AS string) AS payload")
    with _subscribed(mosquitto, "t/+") as subscriber:
        rows.repartition(3).write.format("heliograph").mode("append").options(host=host, port=port, window=64).save()
        messages = subscriber.wait_for(2000)
    assert sorted(int(message.payload) for message in messages) == list(range(2000))
    assert {message.qos for message in messages} == {1}


def test_the_columns_say_how_a_row_is_published(spark: SparkSession, mosquitto: tuple[str, int]) -> None:
    host, port = mosquitto
    properties = "map('Content-Type', 'text/plain', 'Correlation-Data', 'AAE=', 'User-Property.unit', 'mph')"
    rows = spark.range(1).selectExpr(
        "'r/1' AS topic",
        "X'00FF' AS payload",
        "cast(2 AS tinyint) AS qos",
        "true AS retain",
        f"{properties} AS properties",
    )
    rows.write.format("heliograph").mode("append").options(host=host, port=port).save()
    # It was retained, so it is there for one who subscribes afterwards.
    with _subscribed(mosquitto, "r/+") as subscriber:
        (message,) = subscriber.wait_for(1)
    assert (message.topic, message.payload, message.qos, message.retain) == ("r/1", b"\x00\xff", 2, True)
    assert message.properties is not None
    properties_json = message.properties.json()  # type: ignore[no-untyped-call]  # paho has no types here
    assert properties_json["ContentType"] == "text/plain"
    assert properties_json["CorrelationData"] == "0001"
    assert properties_json["UserProperty"] == [("unit", "mph")]


def test_a_stream_is_published_batch_by_batch(spark: SparkSession, mosquitto: tuple[str, int], tmp_path: Path) -> None:
    host, port = mosquitto
    source = tmp_path / "in"
    spark.range(10).selectExpr("cast(id AS string) AS payload").write.parquet(str(source))
    rows = spark.readStream.schema("payload string").parquet(str(source)).selectExpr("'s/x' AS topic", "payload")
    with _subscribed(mosquitto, "s/+") as subscriber:
        query = (
            rows.writeStream.format("heliograph")
            .options(host=host, port=port, checkpointLocation=str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(60)
        messages = subscriber.wait_for(10)
    assert sorted(message.payload for message in messages) == [b"%d" % number for number in range(10)]


def test_rows_that_cannot_be_messages_are_refused(spark: SparkSession) -> None:
    rows = spark.range(1).selectExpr("'a' AS topic", "id AS payload")
    with pytest.raises(PySparkException, match=r"option columns\.payload is 'bigint', but must be a string"):
        rows.write.format("heliograph").mode("append").save()
    with pytest.raises(PySparkException, match="option columns is 'temp', but must be some of topic, payload"):
        rows.withColumnRenamed("payload", "temp").write.format("heliograph").mode("append").save()


def test_a_topic_that_cannot_be_published_to_is_named(mosquitto: tuple[str, int]) -> None:
    host, port = mosquitto
    with MqttPublisher(SinkOptions(host, port)) as publisher, pytest.raises(PublishError, match=r"topic 'a/\+' cannot"):
        publisher.publish({"topic": "a/+", "payload": b"x"})


def test_an_unknown_property_is_named(mosquitto: tuple[str, int]) -> None:
    host, port = mosquitto
    with MqttPublisher(SinkOptions(host, port)) as publisher, pytest.raises(OptionError, match="'Contnt-Type'"):
        publisher.publish({"topic": "a", "payload": b"x", "properties": {"Contnt-Type": "x"}})


def test_a_broker_that_is_not_there_is_named(spark: SparkSession) -> None:
    rows = spark.range(1).selectExpr("'a' AS topic", "'x' AS payload")
    with pytest.raises(PySparkException, match=r"the MQTT broker at 127\.0\.0\.1:9 cannot be reached"):
        rows.write.format("heliograph").mode("append").options(host="127.0.0.1", port=9).save()


def test_a_broker_that_does_not_answer_ends_the_task() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        options = SinkOptions("127.0.0.1", silent.getsockname()[1], connect_timeout_s=0.2)
        with pytest.raises(PublishError, match="did not accept the connection"), MqttPublisher(options):
            pass


def test_a_lost_connection_goes_on_without_loss_or_doubles(mosquitto: tuple[str, int]) -> None:
    connections: list[socket.socket] = []

    def pass_on(connected: socket.socket) -> None:
        with socket.create_connection(mosquitto) as broker:
            connections.append(connected)
            back = threading.Thread(target=_copy, args=(broker, connected))
            back.start()
            _copy(connected, broker)
            back.join()

    with listening(pass_on) as port, _subscribed(mosquitto, "cut/+") as subscriber:
        options = SinkOptions("127.0.0.1", port, qos=2, window=20, keepalive_s=1)
        with MqttPublisher(options) as publisher:
            for number in range(500):
                publisher.publish({"topic": "cut/x", "payload": b"%d" % number})
                if number % 100 == 50:
                    connections[-1].shutdown(socket.SHUT_RDWR)
            publisher.flush()
            assert publisher.reconnects == 5
            messages = subscriber.wait_for(500)
            # Its thread keeps the connection while nothing is published: mosquitto ends one that is silent for 1.5 s.
            count = len(connections)
            wait_until(lambda: publisher.pings > 2, "the connection is kept alive")
            publisher.publish({"topic": "cut/x", "payload": b"500"})
            publisher.flush()
            assert (len(connections), publisher.reconnects) == (count, 5)
    assert [int(message.payload) for message in messages] == list(range(500))


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)
