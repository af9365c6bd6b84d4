"""The sink `mqtt`, mosquitto and Heliograph itself: what a subscriber hears of rows."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from paho.mqtt.client import MQTTMessage
from pyspark.sql import SparkSession

from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.sinks.spark.writing import write_batch
from support.certificates import Authority
from support.mosquitto import free_port
from support.mosquitto import mosquitto as running_mosquitto
from support.process import NodeProcess
from support.sinks import Refused, batch_of, sink_of
from support.subscribing import subscribed

pytestmark = [
    pytest.mark.service,
    pytest.mark.slow,
]

_DEADLINE_S = 20.0


def _user_properties(message: MQTTMessage) -> Any:
    assert message.properties is not None
    return message.properties.json()["UserProperty"]  # type: ignore[no-untyped-call]  # paho has no types here


def test_rows_become_messages(spark: SparkSession, mosquitto: tuple[str, int]) -> None:
    sink = sink_of(
        f'{{ type = mqtt, server = "127.0.0.1:{mosquitto[1]}", topic = "s/${{kind}}", qos = 2, window = 50, '
        'properties { "Content-Type" = "application/json", "User-Property.id" = "${id}" } }'
    )
    rows = spark.range(0, 1000, 1, 2).selectExpr("id", "IF(id % 2 = 0, 'even', 'odd') AS kind")
    with subscribed(mosquitto[1], "s/+") as heard:
        written = write_batch(sink, rows, batch_of(0))
        messages = heard.wait_for(1000)
    assert sorted(json.loads(message.payload)["id"] for message in messages) == list(range(1000))
    assert {message.topic for message in messages} == {"s/even", "s/odd"}
    assert {message.qos for message in messages} == {2}
    assert all(_user_properties(message) == [("id", str(json.loads(message.payload)["id"]))] for message in messages)
    assert (written.figures["rows"], written.figures["refused"], written.figures["retries"]) == (1000, 0, 0)
    assert written.figures["bytes"] == sum(len(message.payload) for message in messages)


def test_refused_rows_are_told_and_the_others_published(spark: SparkSession, mosquitto: tuple[str, int]) -> None:
    sink = sink_of(
        f'{{ type = mqtt, server = "127.0.0.1:{mosquitto[1]}", topic = "${{topic}}", payload = "${{payload}}", '
        'properties { "Message-Expiry-Interval" = "${expiry}" } }'
    )
    rows = spark.sql(
        """SELECT id,
                  CASE id WHEN 3 THEN 'rows/+' WHEN 4 THEN '' WHEN 5 THEN 'rows/' || CHR(0) ELSE 'rows/ok' END AS topic,
                  X'00FF' AS payload, IF(id = 6, 'soon', '60') AS expiry, named_struct('x', id) AS s FROM range(10)"""
    )
    refused = Refused()
    with subscribed(mosquitto[1], "rows/#") as heard:
        written = write_batch(sink, rows, batch_of(0, refused))
        messages = heard.wait_for(6)
    assert [message.payload for message in messages] == [b"\x00\xff"] * 6
    reasons = {row["id"]: reason for row, reason in refused.rows}
    assert sorted(reasons) == [3, 4, 5, 6]
    assert "holds a wildcard" in reasons[3]
    assert "Message-Expiry-Interval is 'soon'" in reasons[6]
    assert {row["id"]: row["s"] for row, _ in refused.rows}[3] == {"x": 3}
    assert (written.figures["rows"], written.figures["refused"]) == (6, 4)


def test_a_broker_that_asks_for_a_password_and_speaks_tls(spark: SparkSession, tmp_path: Path) -> None:
    passwords = tmp_path / "passwords"
    program = shutil.which("mosquitto_passwd")
    if program is None:
        pytest.skip("mosquitto_passwd is not installed")
    subprocess.run([program, "-b", "-c", str(passwords), "spark", "s3cret"], check=True, capture_output=True)
    authority = Authority(tmp_path)
    certificate = authority.server()
    port = free_port()
    listener = (
        f"listener {port} 127.0.0.1\ncertfile {certificate}\nkeyfile {certificate}\n"
        f"allow_anonymous false\npassword_file {passwords}\nmax_packet_size 1000\n"
    )
    secret = tmp_path / "secret"
    secret.write_text("s3cret\n")
    section = f'type = mqtt, server = "localhost:{port}", topic = t, username = spark, password = "file://{secret}"'
    trusted = f'ssl {{ cacertfile = "{authority.cafile}" }}'
    with running_mosquitto(tmp_path, listener):
        refused = Refused()
        rows = spark.sql("SELECT repeat('x', 2000) AS t UNION ALL SELECT 'y'")
        written = write_batch(sink_of(f"{{ {section}, {trusted} }}"), rows, batch_of(0, refused))
        assert (written.figures["rows"], written.figures["refused"]) == (1, 1)
        assert "takes 1000 at most" in refused.rows[0][1]
        with pytest.raises(SinkError, match="certificate verify failed"):
            write_batch(sink_of(f"{{ {section}, ssl {{}} }}"), rows, batch_of(0))
        secret.write_text("wrong")
        with pytest.raises(SinkError, match=r"refused the connection: (not authorized|bad user name)") as error:
            write_batch(sink_of(f"{{ {section}, {trusted} }}"), rows, batch_of(0))
        assert "wrong" not in str(error.value)


def test_a_broker_that_is_not_there_is_told(spark: SparkSession) -> None:
    sink = sink_of('{ type = mqtt, server = "127.0.0.1:9", topic = t, retry { attempts = 2 } }')
    with pytest.raises(SinkError, match=r"MQTT topic t at 127\.0\.0\.1:9: .*cannot be reached: .*refused"):
        write_batch(sink, spark.range(1), batch_of(0))


def test_heliograph_itself_takes_rows(spark: SparkSession, tmp_path: Path) -> None:
    node = NodeProcess(tmp_path).start()
    try:
        sink = sink_of(f'{{ type = mqtt, server = "127.0.0.1:{node.port}", topic = "h/${{id}}", retain = true }}')
        assert write_batch(sink, spark.range(100), batch_of(0)).figures["rows"] == 100
        with subscribed(node.port, "h/+") as heard:
            messages = heard.wait_for(100)
        assert sorted(int(message.topic[2:]) for message in messages) == list(range(100))
        assert all(message.retain for message in messages)
    finally:
        node.stop()
