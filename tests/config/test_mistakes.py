"""What an operator sees when the configuration is wrong."""

import pytest

from config.writing import Write, config_of, mistakes_in
from heliograph.config.loading import load_config
from heliograph.settings.errors import ConfigError
from support.cases import cases


@cases(
    ("text", "mistake"),
    [
        ("mqtt.max_inflight = 70000", "mqtt.max_inflight: found 70000, expected an integer from 1 to 65535"),
        ("mqtt.max_inflight = 0", "mqtt.max_inflight: found 0, expected an integer from 1 to 65535"),
        ("mqtt.max_inflight = many", 'mqtt.max_inflight: found "many", expected an integer from 1 to 65535'),
        ("mqtt.max_inflight = 3.0", "mqtt.max_inflight: found 3.0, expected an integer from 1 to 65535"),
        ("mqtt.max_inflight = true", "mqtt.max_inflight: found true, expected an integer from 1 to 65535"),
        ("mqtt.max_inflight = [1]", "mqtt.max_inflight: found a list of 1, expected an integer from 1 to 65535"),
        ("mqtt.max_inflight {}", "mqtt.max_inflight: found {}, expected an integer from 1 to 65535"),
        (
            "mqtt.max_mqueue_len = -1",
            "mqtt.max_mqueue_len: found -1, expected an integer of at least 1, or infinity (also 0)",
        ),
        ("mqtt.upgrade_qos = yes", 'mqtt.upgrade_qos: found "yes", expected true or false'),
        ("mqtt.upgrade_qos = 1", "mqtt.upgrade_qos: found 1, expected true or false"),
        (
            'mqtt.idle_timeout = "15 s"',
            'mqtt.idle_timeout: found "15 s", expected a duration of at least 1ms (a plain integer is milliseconds), '
            "or infinity: the units are ms, s, m, h, d, w and f (14 days), without blanks, as in 1h30m or 500ms",
        ),
        (
            "mqtt.idle_timeout = -5",
            "mqtt.idle_timeout: found -5, expected a duration of at least 1ms (a plain integer is milliseconds), or "
            "infinity",
        ),
        (
            "mqtt.max_packet_size = 10m",
            'mqtt.max_packet_size: found "10m", expected a size from 16B to 256MB: the units are B, KB, MB and GB '
            "(1 KB is 1024 bytes), whole and without blanks, as in 16MB",
        ),
        ("mqtt.max_packet_size = 1GB", 'mqtt.max_packet_size: found "1GB", expected a size from 16B to 256MB'),
        ("mqtt.keepalive_multiplier = 0.5", "mqtt.keepalive_multiplier: found 0.5, expected a number of at least 1"),
        (
            "mqtt.server_keepalive = infinity",
            'mqtt.server_keepalive: found "infinity", expected an integer from 1 to 65535, or disabled',
        ),
        (
            "log.console.level = Info",
            'log.console.level: found "Info", expected debug, info, notice, warning, error, critical, '
            "alert or emergency",
        ),
        (
            'listeners.tcp.default.bind = "::1:1883"',
            'listeners.tcp.default.bind: found "::1:1883", expected an address and port as in "127.0.0.1:1883" or '
            '"[::1]:1883", or a port as in 1883 (every interface), or the path of a Unix socket as in '
            '"unix:/run/mqtt.sock": an IPv6 address stands in brackets, as in '
            "[::1]:1883",
        ),
        (
            "listeners.tcp.default.bind = 65536",
            'listeners.tcp.default.bind: found 65536, expected an address and port as in "127.0.0.1:1883" or '
            '"[::1]:1883", or a port as in 1883 (every interface), or the path of a Unix socket as in '
            '"unix:/run/mqtt.sock"',
        ),
        (
            'durable_storage.messages.topics = ["a/#/b"]',
            'durable_storage.messages.topics.1: found "a/#/b", expected a topic filter, as in "weather/+/obs": '
            "'#' must stand alone and last in 'a/#/b'",
        ),
        (
            'durable_storage.messages.topics = "a"',
            'durable_storage.messages.topics: found "a", expected a list, each a topic filter, as in "weather/+/obs"',
        ),
        (
            "durable_storage.messages.topics.2 = a",
            'durable_storage.messages.topics: found {"2": "a"}, expected a list, each a topic filter, as in '
            '"weather/+/obs"',
        ),
        (
            "durable_storage.messages.layout.wildcard_thresholds = []",
            "durable_storage.messages.layout.wildcard_thresholds: found [], expected a list with at least 1 element, "
            "each an integer of at least 1",
        ),
        ("mqtt = 5", "mqtt: found 5, expected an object with settings such as idle_timeout"),
        ("listeners.tcp = [1]", "listeners.tcp: found a list, expected an object with a name for each entry"),
        ("listeners.tcp.x = 1883", "listeners.tcp.x: found a number, expected an object with settings such as enable"),
        (
            'listeners.tcp {"a b" {}}',
            'listeners.tcp.a b: "a b" is no valid name: expected letters, digits, _ and -, beginning with a letter or '
            "digit",
        ),
        ("node.name = x", 'node.name: found "x", expected a node name such as heliograph@127.0.0.1'),
        ('node.data_dir = ""', 'node.data_dir: found "", expected a directory'),
        ("mqtt.max_inflght = 5", "mqtt.max_inflght: unknown key; did you mean max_inflight?"),
        ("mqt.max_inflight = 5", "mqt: unknown key; did you mean mqtt?"),
        ("log.zzz = 5", "log.zzz: unknown key; valid here: audit, console, file"),
        (
            "zzz = 5",
            "zzz: unknown key; valid here: ",
        ),
        ('"mqtt.max_inflight" = 5', "mqtt.max_inflight: unknown key; valid here: "),
    ],
)
def test_one_mistake(text: str, mistake: str, write: Write) -> None:
    (line,) = mistakes_in(write(f"# a comment\n\n{text}\n"))
    assert line.startswith("node.conf:3: ")
    found = line.removeprefix("node.conf:3: ")
    assert found.startswith(mistake) if mistake.endswith(": ") else found == mistake


def test_every_mistake_is_listed_in_the_order_of_the_file(write: Write) -> None:
    path = write("mqtt {\n  max_inflight = 0\n  nope = 1\n}\nlog.console.level = loud\nretainer.enable = maybe\n")
    assert [line.split(": ")[:2] for line in mistakes_in(path)] == [
        ["node.conf:2", "mqtt.max_inflight"],
        ["node.conf:3", "mqtt.nope"],
        ["node.conf:5", "log.console.level"],
        ["node.conf:6", "retainer.enable"],
    ]


def test_the_exception_tells_the_first_mistake_in_parts(write: Write) -> None:
    path = write("\nmqtt.max_inflight = 0\nlog.console.level = loud")
    with pytest.raises(ConfigError) as caught:
        config_of(path)
    error = caught.value
    assert (error.file, error.line, error.path) == (str(path), 2, "mqtt.max_inflight")
    assert error.message == "found 0, expected an integer from 1 to 65535"
    assert len(error.problems) == 2


def test_a_text_that_is_no_hocon_is_a_mistake_of_its_line(write: Write) -> None:
    (line,) = mistakes_in(write("node.name = x\nlisteners.tcp.default.bind = 127.0.0.1:1883\n"))
    assert line.startswith("node.conf:2: '.0' does not fit here: ")
    assert "double quotes" in line


def test_a_wrong_variable_is_named(write: Write) -> None:
    path = write("mqtt.max_inflight = 5")
    assert mistakes_in(path, {"HELIOGRAPH_MQTT__MAX_INFLIGHT": "0"}) == [
        "HELIOGRAPH_MQTT__MAX_INFLIGHT: mqtt.max_inflight: found 0, expected an integer from 1 to 65535"
    ]
    assert mistakes_in(path, {"HELIOGRAPH_DURABLE_STORAGE__MESSAGES__TOPICS__3": "a"}) == [
        "HELIOGRAPH_DURABLE_STORAGE__MESSAGES__TOPICS__3: index 3 is outside the list, which has 0 elements: "
        "valid are 1 to 1 (one more than it has appends)"
    ]


def test_a_wrong_option_is_named() -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(overrides={"node.data_dir": ""})
    assert str(caught.value) == 'command line: node.data_dir: found "", expected a directory'
    with pytest.raises(ConfigError, match=r"command line: node\.nope: unknown key"):
        load_config(overrides={"node.nope": "x"})


def test_a_substituted_value_is_shown_with_its_source(write: Write) -> None:
    path = write("mqtt.max_clientid_len = 65535\nmqtt.max_qos_allowed = ${mqtt.max_clientid_len}")
    assert mistakes_in(path) == [
        "node.conf:2: mqtt.max_qos_allowed: found 65535, expected an integer from 0 to 2 "
        "(the value comes from node.conf:1)"
    ]


def test_long_values_are_cut(write: Write) -> None:
    (line,) = mistakes_in(write(f'log.console.level = "{"x" * 1000}"'))
    assert len(line) < 200
    assert "a string that begins with" in line


@cases(
    "text",
    [
        'schema_registry.external.one { type = confluent, auth = "SECRET" }',
        'schema_registry.external.one { type = confluent, auth.password = ["SECRET"] }',
        'listeners.ssl.default.ssl_options = "SECRET"',
        'listeners.ssl.default.ssl_options.password = { a = "SECRET" }',
        'durable_storage.flight.tokens = "SECRET"',
        'durable_storage.flight.tokens = [{ sha256 = "SECRET" }]',
    ],
)
def test_what_may_hold_a_secret_is_not_shown(write: Write, text: str) -> None:
    with pytest.raises(ConfigError, match="found") as error:
        load_config(write(text), {})
    assert "SECRET" not in str(error.value)
