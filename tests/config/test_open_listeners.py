"""A listener that other machines reach is not opened to strangers without leave."""

from config.writing import Write
from heliograph.config.contradictions import open_listener_faults
from heliograph.config.layers import Sources
from heliograph.config.loading import config_of
from heliograph.settings.errors import ConfigError
from support.cases import cases

USERS = '{ mechanism = cinfo, checks = [{ is_match = "true", result = allow }] }'
SWITCHED_OFF = f"{USERS[:-1]}, enable = false }}"
LOOPBACK = ("127.0.0.1:0", "[::1]:0", "localhost:0", "127.9.0.1:1")
TLS = 'ssl_options { certfile = "c.pem", cacertfile = "ca.pem", %s }'
OPEN = "listeners.tcp.default.bind = 1883\n"


def faults(write: Write, text: str) -> list[str]:
    try:
        config_of(Sources(write(text), {}, {}).read(), (open_listener_faults,))
    except ConfigError as error:
        return [str(problem) for problem in error.problems]
    return []


@cases(
    "text",
    [
        "",
        *(
            f'listeners.tcp.default.bind = "{bind}"'
            for bind in ("127.0.0.1:0", "[::1]:0", "localhost:0", "127.9.0.1:1")
        ),
        'listeners.tcp.default.bind = "unix:/run/heliograph.sock"',
        OPEN + f"authentication = [{USERS}]",
        OPEN + f"authentication = {USERS}",
        OPEN + f"listeners.tcp.default.authentication = [{USERS}]",
        OPEN + "listeners.tcp.default.allow_anonymous_network = true",
        OPEN + "listeners.tcp.default.enable = false",
        "listeners.ssl.a { bind = 8883, " + TLS % "verify = verify_peer, fail_if_no_peer_cert = true" + " }",
        "listeners.wss.a { bind = 8084, enable_authn = false, "
        + TLS % "verify = verify_peer, fail_if_no_peer_cert = true"
        + " }",
        OPEN + f"authentication = [{USERS}]\nlisteners.tcp.default.enable_authn = quick_deny_anonymous",
    ],
)
def test_what_is_closed_or_meant_to_be_open(write: Write, text: str) -> None:
    assert faults(write, text) == []


@cases(
    ("text", "path", "bind"),
    [
        (OPEN, "listeners.tcp.default", "0.0.0.0:1883"),
        ('listeners.tcp.default.bind = ":1883"', "listeners.tcp.default", "0.0.0.0:1883"),
        ('listeners.tcp.default.bind = "[::]:1883"', "listeners.tcp.default", "[::]:1883"),
        ('listeners.ws.w.bind = "192.0.2.1:8083"', "listeners.ws.w", "192.0.2.1:8083"),
        ('listeners.tcp.default.bind = "broker.example.org:1883"', "listeners.tcp.default", "broker.example.org:1883"),
        (OPEN + f"authentication = [{SWITCHED_OFF}]", "listeners.tcp.default", "0.0.0.0:1883"),
        (OPEN + f"authentication = [{USERS}]\nlisteners.tcp.default.enable_authn = false", "", "0.0.0.0:1883"),
        (OPEN + "listeners.tcp.default.enable_authn = quick_deny_anonymous", "", "0.0.0.0:1883"),
        (
            OPEN + f"authentication = [{USERS}]\nlisteners.tcp.default.authentication = [{SWITCHED_OFF}]",
            "listeners.tcp.default",
            "0.0.0.0:1883",
        ),
        ("listeners.ssl.a { bind = 8883, " + TLS % "verify = verify_peer" + " }", "listeners.ssl.a", "0.0.0.0:8883"),
        ("listeners.tcp.other { bind = 1884 }", "listeners.tcp.other", "0.0.0.0:1884"),
    ],
)
def test_what_is_open_to_strangers_is_refused_with_what_can_be_done(
    write: Write, text: str, path: str, bind: str
) -> None:
    (fault,) = faults(write, text)
    path = path or "listeners.tcp.default"
    assert f'node.conf:1: {path}.bind: found "{bind}", where every client that reaches it would be let in' in fault
    assert "authentication = [{ mechanism = password_based, backend = built_in_database }]" in fault
    assert "heliograph ctl users add NAME" in fault
    assert f"{path}.allow_anonymous_network = true" in fault


def test_whom_a_listener_lets_in_is_not_said_where_its_authenticators_cannot_be_read(write: Write) -> None:
    (fault,) = faults(write, OPEN + "authentication = [{ mechanism = jwtx }]")
    assert "mechanism and backend say 'jwtx'" in fault
