"""Settings of listeners: what a file may say, what the program gets, how mistakes are told."""

from pathlib import Path

import pytest

from config.writing import Write, config_of, mistakes_in
from heliograph.config.access_rules import parse_access_rule
from heliograph.config.settings import Config
from heliograph.settings.units import Address, Rate, UnixAddress, format_rate, parse_listener_address, parse_rate
from support.cases import cases


def test_only_1883_is_open_by_default() -> None:
    listeners = Config().listeners
    assert {name: each.bind for name, each in listeners.tcp.items()} == {"default": Address("127.0.0.1", 1883)}
    assert (listeners.ssl, listeners.ws, listeners.wss) == ({}, {}, {})


def test_other_listeners_appear_with_their_usual_ports(write: Write) -> None:
    listeners = config_of(write("listeners { ssl.default {}, ws.default {}, wss.default {} }")).listeners
    ports = [each["default"].bind.port for each in (listeners.ssl, listeners.ws, listeners.wss)]  # type: ignore[union-attr]  # each of these is bound to an address
    assert ports == [8883, 8083, 8084]


def test_everything_of_a_listener(write: Write) -> None:
    file = write(
        """
        listeners.wss.front {
          bind = ":8443", max_connections = 1000, max_conn_rate = "100/s", enable_authn = quick_deny_anonymous
          messages_rate = "1000/1m", messages_burst = 50, bytes_rate = "1MB/s", bytes_burst = "100KB"
          access_rules = ["allow 10.0.0.0/8", "deny all"], proxy_protocol = true, mountpoint = "t/${username}/"
          tcp_options { backlog = 5, nodelay = false, keepalive = "300,30,5", sndbuf = 64KB, high_watermark = 2MB }
          ssl_options { certfile = "c.pem", verify = verify_peer, cacertfile = "a.pem", versions = ["tlsv1.3"] }
          websocket { mqtt_path = "/live", compress = true, deflate_opts.level = 1, max_frame_size = 1MB }
        }
        """
    )
    listener = config_of(file).listeners.wss["front"]
    assert listener.bind == Address("0.0.0.0", 8443)
    assert listener.max_conn_rate == Rate(100, 1.0)
    assert listener.messages_rate == Rate(1000, 60.0)
    assert listener.bytes_rate == Rate(1024 * 1024, 1.0)
    assert (listener.messages_burst, listener.bytes_burst) == (50, 102_400)
    assert [str(rule) for rule in listener.access_rules] == ["allow 10.0.0.0/8", "deny all"]
    assert listener.enable_authn == "quick_deny_anonymous"
    assert listener.tcp_options.keepalive == "300,30,5"
    assert listener.ssl_options.versions == ("tlsv1.3",)
    assert listener.websocket.mqtt_path == "/live"


@cases(("text", "word"), [("true", "true"), ("false", "false")])
def test_authentication_is_switched_with_a_keyword(write: Write, text: str, word: str) -> None:
    assert (
        config_of(write(f"listeners.tcp.default.enable_authn = {text}")).listeners.tcp["default"].enable_authn == word
    )


@cases(
    ("text", "expected"),
    [
        (
            'listeners.tcp.default.bind = "unix:sock"',
            "the path of a Unix socket begins with /, as in unix:/run/heliograph/mqtt.sock",
        ),
        ('listeners.tcp.default.max_conn_rate = "1000"', "it has an amount and a time, as in 1000/s"),
        ('listeners.tcp.default.messages_rate = "1MB/s"', '"1MB" is no number'),
        ('listeners.tcp.default.messages_rate = "0/s"', "amount and time must be above 0; infinity is no limit"),
        ('listeners.tcp.default.bytes_rate = "5XB/s"', "the units are B, KB, MB and GB"),
        ('listeners.tcp.default.access_rules = ["permit all"]', "a rule begins with allow or deny"),
        ('listeners.tcp.default.access_rules = ["deny 10.0.0.1/8"]', "10.0.0.1/8 has host bits set"),
        ('listeners.tcp.default.tcp_options.keepalive = "300"', '"none", or "IDLE,INTERVAL,PROBES"'),
        ('listeners.ssl.default.ssl_options.versions = ["tlsv1.1"]', "expected tlsv1.3 or tlsv1.2"),
        ("listeners.ssl.default.ssl_options.verify = verify_peer", "verify = verify_peer needs cacertfile"),
        (
            "listeners.ssl.default.ssl_options.fail_if_no_peer_cert = true",
            "fail_if_no_peer_cert has no meaning without verify = verify_peer",
        ),
        (
            'listeners.ssl.default.ssl_options { verify = verify_peer, cacertfile = "a", enable_crl_check = true }',
            "enable_crl_check needs crlfile and verify = verify_peer",
        ),
        ('listeners.ws.default.websocket.mqtt_path = "mqtt"', "expected a path"),
    ],
)
def test_mistakes(write: Write, text: str, expected: str) -> None:
    (mistake,) = mistakes_in(write(text))
    assert mistake.startswith("node.conf:1: listeners.")
    assert expected in mistake


@cases(
    ("text", "rate", "shown"),
    [
        ("1000/s", Rate(1000, 1.0), "1000/s"),
        ("1000/1s", Rate(1000, 1.0), "1000/s"),
        ("500KB/1m", Rate(512_000, 60.0), "500KB/m"),
        ("10MB/s", Rate(10 << 20, 1.0), "10MB/s"),
        ("7/500ms", Rate(7, 0.5), "7B/500ms"),
    ],
)
def test_rates(text: str, rate: Rate, shown: str) -> None:
    assert parse_rate(text, of_bytes=True) == rate
    of_bytes = not text.startswith("1000")
    assert format_rate(rate, of_bytes=of_bytes) == shown
    assert parse_rate(shown, of_bytes=of_bytes) == rate


@cases("text", ["", "/", "10", "10/", "/s", "10/x", "-1/s", "1.5/s", "10/0s", "9" * 30 + "/s"])
def test_texts_that_are_no_rate(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_rate(text, of_bytes=True)


def test_addresses_of_listeners() -> None:
    assert parse_listener_address("unix:/run/mqtt.sock") == UnixAddress("/run/mqtt.sock")
    assert parse_listener_address("[::1]:1883") == Address("::1", 1883)
    with pytest.raises(ValueError, match="at most 107 bytes"):
        parse_listener_address("unix:/" + "a" * 107)


def test_the_examples_on_the_page_can_be_read(write: Write) -> None:
    page = (Path(__file__).parents[2] / "docs" / "listeners.md").read_text(encoding="utf-8")
    examples = [block.split("```")[0] for block in page.split("```hocon\n")[1:]]
    assert examples
    for example in examples:
        config_of(write(example))


def test_rules() -> None:
    assert str(parse_access_rule("deny  2001:db8::/32")) == "deny 2001:db8::/32"
    assert parse_access_rule("allow 127.0.0.1").network is not None


def test_a_zone_that_is_not_there_is_told_with_its_line(write: Write) -> None:
    text = "zones.inside.mqtt.max_qos_allowed = 1\n\nlisteners.tcp.default.zone = insde"
    assert mistakes_in(write(text)) == [
        'node.conf:3: listeners.tcp.default.zone: found "insde", but there is no such zone; there are default, inside. '
        "Describe it under zones.insde"
    ]


def test_two_listeners_at_one_address_are_told(write: Write) -> None:
    text = 'listeners.tcp.inside {\n bind = "127.0.0.1:1883"\n}\nlisteners.ws { a.bind = 0, b.bind = 0 }'
    assert mistakes_in(write(text)) == [
        'node.conf:2: listeners.tcp.inside.bind: found "127.0.0.1:1883", where listeners.tcp.default listens already: '
        "choose another, or say listeners.tcp.default.enable = false"
    ]
