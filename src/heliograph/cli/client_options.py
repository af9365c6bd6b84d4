"""Options that `publish` and `subscribe` share, with mosquitto's names: server, login, will."""

import argparse
import os
import secrets
import signal
import ssl
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from heliograph.cli.usage import UsageError
from heliograph.client.connection import ClientConnection
from heliograph.client.errors import EXIT_USAGE, ClientError
from heliograph.client.property_texts import CommandProperties
from heliograph.client.target import DEFAULT_PORTS, DEFAULT_WS_PATH, BrokerTarget, BrokerUrl
from heliograph.mqtt import packets as p
from heliograph.mqtt import properties as props
from heliograph.mqtt.topic import MAX_TOPIC_BYTES, topic_name_fault
from heliograph.settings.tls import ClientTls

_VERSIONS: Final = {
    "5": p.V5,
    "mqttv5": p.V5,
    "311": p.V3_1_1,
    "3.1.1": p.V3_1_1,
    "mqttv311": p.V3_1_1,
    "31": p.V3_1,
    "mqttv31": p.V3_1,
}
_FOR_EVER: Final = 0xFFFF_FFFF


def add_connection(parser: argparse.ArgumentParser) -> None:
    """Add the options of the connection; `-h` is the host, as with mosquitto, so help is `--help` alone."""
    parser.add_argument("--help", action="help", help="show this help and exit")
    group = parser.add_argument_group("connection")
    group.add_argument("-h", "--host", help="name or address of the broker (default: localhost)")
    ports = ", ".join(f"{name} {port}" for name, port in DEFAULT_PORTS.items())
    group.add_argument("-p", "--port", type=whole(65_535, 1), help=f"its port (default: {ports})")
    group.add_argument(
        "-L",
        "--url",
        type=_url,
        metavar="URL",
        help="instead: mqtt://, mqtts://, ws:// or wss:// and [USER[:PASSWORD]@]HOST[:PORT][/PATH]; the path is the "
        "topic, or that of the WebSocket",
    )
    group.add_argument("--unix", metavar="PATH", help="instead: a Unix socket")
    group.add_argument("--ws", action="store_true", help="speak WebSocket")
    group.add_argument("--ws-path", metavar="PATH", help=f"path of the WebSocket (default: {DEFAULT_WS_PATH})")
    group.add_argument(
        "-V", "--mqtt", choices=tuple(_VERSIONS), default="5", metavar="VERSION", help="5 (default) or 311"
    )
    group.add_argument("-k", "--keepalive", type=whole(65_535), default=60, metavar="S", help="(default: 60; 0: none)")
    group.add_argument("--timeout", type=seconds, default=30.0, metavar="S", help="for each answer (default: 30)")
    group.add_argument("-d", "--debug", action="store_true", help="tell every packet on stderr")
    group.add_argument("--quiet", action="store_true", help="tell no errors")
    _add_session(parser)
    _add_tls(parser)
    _add_will(parser)


def _add_session(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("client")
    group.add_argument("-i", "--id", metavar="ID", help="client id (default: one made by chance)")
    group.add_argument("-I", "--id-prefix", metavar="TEXT", help="client id: this and the number of the process")
    group.add_argument("-u", "--username", metavar="NAME")
    group.add_argument("-P", "--password", metavar="TEXT", help="others can see it in the list of processes")
    group.add_argument("--password-file", type=Path, metavar="FILE", help="file whose first line is the password")
    group.add_argument("-c", "--keep-session", action="store_true", help="resume the session of the id, and leave it")
    group.add_argument(
        "-x",
        "--session-expiry",
        type=_expiry,
        metavar="S",
        help="how long the session stays after the connection (default: with -c for ever, otherwise 0; MQTT 5)",
    )
    group.add_argument(
        "-D",
        "--property",
        nargs="+",
        action="append",
        default=[],
        metavar=("COMMAND", "NAME VALUE"),
        help="MQTT 5 property of connect, publish, subscribe, unsubscribe, disconnect or will, as in "
        "-D publish content-type text/plain, -D publish user-property NAME VALUE",
    )


def _add_tls(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("TLS")
    group.add_argument("--tls", action="store_true", help="speak TLS and trust the authorities of the system")
    group.add_argument("--cafile", metavar="FILE", help="speak TLS and trust the authorities in this PEM file")
    group.add_argument("--cert", metavar="FILE", help="PEM file with a certificate to show")
    group.add_argument("--key", metavar="FILE", help="PEM file with its private key (default: in --cert)")
    group.add_argument("--insecure", action="store_true", help="trust any certificate")


def _add_will(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("will: what the broker publishes if the connection breaks")
    group.add_argument("--will-topic", metavar="TOPIC")
    group.add_argument("--will-payload", metavar="TEXT", help="(default: empty)")
    group.add_argument("--will-qos", type=int, choices=(0, 1, 2), help="(default: 0)")
    group.add_argument("--will-retain", action="store_true", help="the broker keeps it for later subscribers")


def connect(args: argparse.Namespace, role: str, properties: CommandProperties) -> ClientConnection:
    """The connection that the options describe; SIGTERM then ends the program as Ctrl-C does.

    Raises:
        UsageError: The options do not go together.
        ClientError: The connection cannot be made.
    """
    target, packet = _target_of(args), _connect_packet(args, role, properties)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    return ClientConnection(target, packet, args.timeout, _tell if args.debug else None)


def topic_of_url(args: argparse.Namespace) -> str | None:
    url: BrokerUrl | None = args.url
    return url.path if url is not None and not url.scheme.startswith("ws") else None


def version_of(args: argparse.Namespace) -> int:
    return _VERSIONS[args.mqtt]


def whole(maximum: int, minimum: int = 0) -> "argparse._ActionType":
    """Makes numbers of texts, and refuses others."""

    def number(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and minimum <= int(text[:12]) <= maximum):
            raise argparse.ArgumentTypeError(f"{text}: a whole number from {minimum} to {maximum} is expected")
        return int(text)

    return number


def seconds(text: str) -> float:
    """A number of seconds above 0."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < 1e9:
        raise argparse.ArgumentTypeError(f"{text}: a number of seconds above 0 is expected")
    return number


def run_client(args: argparse.Namespace, do: Callable[[argparse.Namespace], int], interrupted: int) -> int:
    """Carry out a command of a client, and tell what was wrong; the exit code.

    Args:
        do: What it does, with its options.
        interrupted: The exit code where its user ends it.
    """
    try:
        return do(args)
    except (UsageError, ValueError) as error:
        print(f"heliograph {args.command}: {_error_text(error)}", file=sys.stderr)
        return EXIT_USAGE
    except ClientError as error:
        if not args.quiet:
            print(f"heliograph {args.command}: [{error.code}] {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return interrupted


def _error_text(error: Exception) -> str:
    if isinstance(error, UnicodeEncodeError):
        return f"{error.object!r} is not valid UTF-8; topics, ids and all other texts of MQTT are"
    return str(error)


def check_topic(topic: str) -> None:
    """Refuse what is no topic name.

    Raises:
        UsageError: It is not one.
    """
    fault = topic_name_fault(topic, MAX_TOPIC_BYTES) if topic else "it is empty"
    if fault is not None:
        raise UsageError(f'"{topic}" cannot be published to: {fault}')
    size = len(topic.encode())
    if size > MAX_TOPIC_BYTES:
        raise UsageError(f"the topic has {size:,} bytes; at most {MAX_TOPIC_BYTES:,} are valid")


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _url(text: str) -> BrokerUrl:
    try:
        return BrokerUrl.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _expiry(text: str) -> int:
    number: int = _FOR_EVER if text in ("-1", "infinity") else int(text) if text.isdecimal() else -1
    if not 0 <= number <= _FOR_EVER:
        raise argparse.ArgumentTypeError(f"{text}: seconds from 0 to {_FOR_EVER - 1}, or infinity, are expected")
    return number


def _target_of(args: argparse.Namespace) -> BrokerTarget:
    url: BrokerUrl | None = args.url
    given = [name for name in ("host", "port", "unix") if getattr(args, name) is not None]
    if url is not None and given:
        raise UsageError(f"--url and --{given[0]} contradict each other: give one of them")
    scheme = "mqtt" if url is None else url.scheme
    encrypted = scheme in ("mqtts", "wss") or args.tls or args.insecure or bool(args.cafile or args.cert)
    framed = scheme in ("ws", "wss") or args.ws or args.ws_path is not None
    scheme = ("wss" if encrypted else "ws") if framed else ("mqtts" if encrypted else "mqtt")
    path = args.ws_path or (f"/{url.path}" if url is not None and url.path and framed else DEFAULT_WS_PATH)
    return BrokerTarget(
        host=url.host if url is not None else args.host or "localhost",
        port=(url.port if url is not None else args.port) or DEFAULT_PORTS[scheme],
        tls=_tls_context(args) if encrypted else None,
        ws_path=path if framed else None,
        unix_path=args.unix,
    )


def _tls_context(args: argparse.Namespace) -> ssl.SSLContext:
    files = (args.cafile or "", args.cert or "", args.key or "")
    try:
        return ClientTls(*files, verify=not args.insecure).context()
    except OSError as error:
        named = ", ".join(file for file in files if file)
        raise UsageError(f"the files for TLS cannot be used ({named}): {error}") from None


def _connect_packet(args: argparse.Namespace, role: str, properties: CommandProperties) -> p.Connect:
    version, url = version_of(args), args.url
    clientid = args.id
    if args.id_prefix is not None:
        clientid = f"{args.id_prefix}{os.getpid()}"
    if args.keep_session and not clientid:
        raise UsageError("-c needs -i: whose session is to be resumed?")
    expiry = args.session_expiry if args.session_expiry is not None else (_FOR_EVER if args.keep_session else 0)
    if version == p.V5 and expiry:
        properties.of("connect").numbers.setdefault(props.SESSION_EXPIRY_INTERVAL, expiry)
    elif args.session_expiry:
        raise UsageError("--session-expiry needs MQTT 5: -V 5")
    password = _password(args)
    username = args.username if args.username is not None else (url.username if url is not None else None)
    if password is not None and username is None and version != p.V5:
        raise UsageError("a password needs a user name in MQTT 3: give -u")  # 3.1.1 [MQTT-3.1.2-22]
    return p.Connect(
        version,
        clientid if clientid is not None else f"heliograph-{role}-{secrets.token_hex(4)}",
        not args.keep_session,
        args.keepalive,
        _will(args, properties),
        username,
        password,
        properties.of("connect"),
    )


def _password(args: argparse.Namespace) -> bytes | None:
    if args.password is not None and args.password_file is not None:
        raise UsageError("--password and --password-file contradict each other: give one of them")
    if args.password_file is None:
        given = args.password if args.password is not None or args.url is None else args.url.password
        return None if given is None else given.encode()
    try:
        lines: list[bytes] = args.password_file.read_bytes().splitlines()
    except OSError as error:
        raise UsageError(f"the password file {args.password_file} cannot be read: {error.strerror}") from None
    return lines[0] if lines else b""


def _will(args: argparse.Namespace, properties: CommandProperties) -> p.Will | None:
    if args.will_topic is None:
        if args.will_payload is not None or args.will_qos is not None or args.will_retain:
            raise UsageError("a will needs --will-topic")
        return None
    check_topic(args.will_topic)
    payload = (args.will_payload or "").encode()
    return p.Will(args.will_topic, payload, args.will_qos or 0, args.will_retain, properties.of("will"))
