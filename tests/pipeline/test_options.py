"""The options of the data source and sink, as a user gives them."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from heliograph.pipeline.datasource.option_texts import parse_endpoint
from heliograph.pipeline.datasource.options import SourceOptions
from heliograph.pipeline.datasource.read_bounds import SESSION_ZONE
from heliograph.pipeline.datasource.schema import MESSAGE_SCHEMA
from heliograph.pipeline.datasource.sink_options import SinkOptions
from heliograph.pipeline.datasource.source import MessageReader, MessageStreamReader
from heliograph.pipeline.errors import OptionError
from support.cases import cases


def test_defaults_of_a_read() -> None:
    options = SourceOptions.of({})
    assert (options.endpoints, options.database, options.topics) == (("127.0.0.1:8815",), "messages", ("#",))
    assert (options.start, options.end) == ("earliest", "latest")


@cases(
    ("text", "topics"),
    [
        ("weather/+/obs", ("weather/+/obs",)),
        ("a/#, b/+", ("a/#", "b/+")),
        ('["with,comma/#", "b"]', ("with,comma/#", "b")),
    ],
)
def test_topics_are_a_list_of_filters(text: str, topics: tuple[str, ...]) -> None:
    assert SourceOptions.of({"topics": text}).topics == topics


@cases(
    ("text", "time"),
    [
        ("earliest", "earliest"),
        ("1767225600000000", 1_767_225_600_000_000),
        ("2026-01-01T00:00:00Z", 1_767_225_600_000_000),
        ("0", 0),
        ("2026-01-01T01:00:00.000001+01:00", 1_767_225_600_000_001),
        ("1969-12-31T23:59:59.999999Z", 0),
    ],
)
def test_a_start_is_a_word_or_a_time(text: str, time: int | str) -> None:
    assert SourceOptions.of({"start": text}).start == time


@cases(
    ("options", "told"),
    [
        ({"start": "yesterday"}, "option start is 'yesterday', but must be earliest, latest, a time such as"),
        ({"topics": "a,,b"}, "option topics is 'a,,b', but must be names separated by commas"),
        ({"topics": "[1]"}, "option topics is '[1]'"),
        ({"endpoint": "localhost"}, "option endpoint is 'localhost', but must be host:port"),
        ({"endpoint": "localhost:http"}, "option endpoint is 'localhost:http'"),
        ({"endpoint": "http://localhost:1"}, "option endpoint is 'http://localhost:1', but must be host:port, with"),
        ({"endpoint": "a:1,a:1"}, "name each once, since they are of different nodes"),
        ({"token": "file:///none"}, "option token is 'file:///none', but must be a token, or a file with one in it"),
        ({"start": '{"streams": 1}'}, "but must be an offset as Spark shows it"),
        ({"start": '{"streams": {}, "end": 1}'}, "but must be an offset as Spark shows it"),
        ({"partitionBytes": "64MB"}, "option partitionBytes is '64MB', but must be an integer of at least 1"),
        ({"topic": "a/#"}, "option topic is 'a/#', but must be left out, or did you mean topics?"),
        ({"failOnDataLost": "false"}, "did you mean failOnDataLoss?"),
        ({"quux": "x"}, "option quux is 'x', but must be left out; there are "),
        ({"path": "a/b"}, "option path is 'a/b', but must be left out: topics are named by the option topics"),
        ({"start": '{"streams": {"messages/0/1/1": "5"}}'}, "but must be an offset as Spark shows it"),
        ({"schema": "xml"}, "option schema is 'xml', but must be raw, json, variant, avro:NAME"),
        ({"schema": "json"}, "option jsonSchema is None, but must be the fields of the payloads"),
        ({"schema": "avro:telemetry"}, "option schemas is None, but must be a file with a section schemas"),
        ({"schema": "avro:a", "schemas": '{"b": {}}'}, "option schemas is"),
        ({"mode": "stop"}, "option mode is 'stop', but must be one of PERMISSIVE, DROPMALFORMED, FAILFAST"),
        ({"onDecodeError": "fail"}, "must be mode here"),
        ({"subscribe": "a"}, "option subscribe is 'a', but must be topics here"),
        ({"startingOffsets": "earliest"}, "must be start here"),
        ({"kafka.bootstrap.servers": "a:1"}, "must be endpoint here"),
        ({"kafka.session.timeout.ms": "5"}, "must be left out, since this is no Kafka; there are "),
        ({"timeZone": "Mars"}, "option timeZone is 'Mars', but must be a time zone such as"),
        (
            {"start": "2026-01-01"},
            "must be a time with its zone, such as 2026-01-01Z, or come with the option timeZone",
        ),
        (
            {"maxMessagesPerTrigger": "0"},
            "option maxMessagesPerTrigger is '0', but must be an integer of at least 1",
        ),
        ({"onDamage": "stop"}, "option onDamage is 'stop', but must be fail or skip"),
        ({"partitionMessages": "-5"}, "option partitionMessages is '-5'"),
    ],
)
def test_a_wrong_option_of_a_read_is_named(options: dict[str, str], told: str) -> None:
    with pytest.raises(OptionError) as caught:
        SourceOptions.of(options)
    assert told in str(caught.value)


@cases(
    ("number", "readings"),
    [
        (
            "1767225600000",
            "1970-01-21T10:53:45.600000Z in microseconds, 2026-01-01T00:00:00Z in milliseconds, "
            "beyond the year 9999 in seconds",
        ),
        (
            "1767225600",
            "1970-01-01T00:29:27.225600Z in microseconds, 1970-01-21T10:53:45.600000Z in milliseconds, "
            "2026-01-01T00:00:00Z in seconds",
        ),
        ("1767225600000000000", "2026-01-01T00:00:00Z in nanoseconds"),
    ],
)
def test_a_number_that_fits_another_unit_is_refused_with_all_readings(number: str, readings: str) -> None:
    for option in ("start", "end"):
        with pytest.raises(OptionError) as caught:
            SourceOptions.of({option: number})
        assert readings in str(caught.value)


def test_a_time_without_a_zone_is_of_the_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    assert SourceOptions.of({"start": "2026-01-01", "timeZone": "Europe/Berlin"}).start == 1_767_222_000_000_000
    assert SourceOptions.of({"start": "2026-01-01", "timeZone": "-02:00"}).start == 1_767_232_800_000_000
    monkeypatch.setenv(SESSION_ZONE, "Europe/Berlin")
    assert SourceOptions.of({"start": "2026-01-01 01:00"}).start == 1_767_225_600_000_000


def test_a_read_does_not_end_before_it_begins_nor_begin_before_anything_can_be() -> None:
    with pytest.raises(
        OptionError, match="start is '2026-01-02T00:00:00Z', but must be before end, which is 2026-01-01"
    ):
        SourceOptions.of({"start": "2026-01-02T00:00:00Z", "end": "2026-01-01T00:00:00Z"})
    ahead = (datetime.now(UTC) + timedelta(days=2)).isoformat()
    with pytest.raises(OptionError, match=r"must be a time that has been: it is .* now"):
        MessageReader(SourceOptions.of({"start": ahead}), MESSAGE_SCHEMA)
    MessageStreamReader(SourceOptions.of({"start": ahead}), MESSAGE_SCHEMA)
    with pytest.raises(OptionError, match="must be a time of the next year at most"):
        MessageStreamReader(SourceOptions.of({"start": "2126-01-01T00:00:00Z"}), MESSAGE_SCHEMA)


@cases(
    ("options", "told"),
    [
        ({"prot": "1883"}, "option prot is '1883', but must be left out, or did you mean port?"),
        ({"kafka.bootstrap.servers": "a:9092"}, "must be host and port here"),
        ({"topic": "a/b"}, "each row names its topic in the column topic"),
        ({"path": "a/b"}, "each row names its topic in the column topic"),
    ],
)
def test_an_unknown_option_of_a_write_is_refused(options: dict[str, str], told: str) -> None:
    with pytest.raises(OptionError) as caught:
        SinkOptions.of(options)
    assert told in str(caught.value)


def test_what_spark_itself_hands_on_is_no_unknown_option() -> None:
    assert SinkOptions.of({"checkpointlocation": "/tmp/c"}) == SinkOptions()


def test_a_start_is_an_offset_as_spark_shows_it() -> None:
    options = SourceOptions.of({"start": '{"streams": {"messages/0/1/1": "5-0"}, "start": 3, "lost": {"messages": 2}}'})
    assert options.start == {"streams": {"messages/0/1/1": "5-0"}, "start": 3}


def test_a_token_is_read_from_a_file_and_not_shown(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    options = SourceOptions.of({"token": f"file://{tmp_path}/token", "endpoint": "grpc+tls://a:1, b:2"})
    assert (options.token, options.endpoints) == ("secret", ("grpc+tls://a:1", "b:2"))
    assert "secret" not in repr(options)


def test_a_schema_names_one_of_the_definitions() -> None:
    schemas = (
        """{ "t": { type = avro, source = "{\\"type\\": \\"record\\", \\"name\\": \\"T\\", \\"fields\\": []}" } }"""
    )
    assert SourceOptions.of({"schema": "avro:t", "schemas": schemas}).payload_format.name == "t"
    with pytest.raises(OptionError, match=r"option schema is 'protobuf:t', but must be one of .* avro:t"):
        SourceOptions.of({"schema": "protobuf:t", "schemas": schemas})


def test_a_wrong_option_of_a_write_is_named() -> None:
    with pytest.raises(OptionError, match="option qos is '3', but must be an integer from 0 to 2"):
        SinkOptions.of({"qos": "3"})


def test_a_password_is_not_shown() -> None:
    assert "secret" not in repr(SinkOptions.of({"username": "u", "password": "secret"}))


def test_endpoints_may_be_ipv6() -> None:
    assert parse_endpoint("endpoint", "[::1]:8815", "127.0.0.1:8815") == ("::1", 8815)
