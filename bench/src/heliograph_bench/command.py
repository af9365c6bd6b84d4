"""`heliograph bench`: its options, and a run's result on the terminal. The load tool itself is `heliograph_bench`."""

import argparse
import json
import math
import sys
from typing import TYPE_CHECKING

from heliograph.cli.usage import Actions

if TYPE_CHECKING:
    from heliograph_bench.workload import Workload

_SHAPES = {
    "pub": "publish, and wait for the acknowledgements",
    "sub": "subscribe, and count what others publish until Ctrl-C, --duration or --count",
    "pair": "publisher i to subscriber i, each pair on a topic of its own",
    "fan-in": "many publishers to few subscribers of a wildcard filter",
    "fan-out": "few publishers to many subscribers of one topic",
    "connect": "connect, and stay until Ctrl-C or --duration",
}
_DEFAULT_PORTS = {"tcp": 1883, "tls": 8883, "ws": 8083, "wss": 8084}


def add_parser(subparsers: Actions) -> None:
    bench = subparsers.add_parser(
        "bench",
        help="load any MQTT broker and measure throughput and latency",
        description="Load any MQTT broker and measure throughput and latency. Progress goes to stderr once a second, "
        "the result to stdout. The exit code is 1 if a connection was refused or lost, or an acknowledged message is "
        "missing, and 2 if the options make no sense.",
    )
    shapes = bench.add_subparsers(dest="shape", required=True, metavar="WORKLOAD")
    for shape, text in _SHAPES.items():
        parser = shapes.add_parser(shape, help=text, description=f"{text[0].upper()}{text[1:]}.")
        _add_clients(parser, shape)
        _add_connection(parser)
        if shape != "connect":
            _add_messages(parser, shape)
        parser.add_argument("--duration", type=_positive, metavar="S", help="seconds to go on (default: see --count)")
        parser.add_argument("--json", action="store_true", help="print the result as one line of JSON")
        parser.add_argument("--quiet", action="store_true", help="no progress lines")
    bench.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    # Imported here so that the other commands start without uvloop and the load tool.
    from heliograph_bench.driver import execute
    from heliograph_bench.report import RunProgress
    from heliograph_bench.workload import WorkloadError

    def show(progress: RunProgress) -> None:
        print(progress.line(), file=sys.stderr, flush=True)

    try:
        result = execute(_workload_of(args), None if args.quiet else show)
    except WorkloadError as error:
        print(f"heliograph bench: [{error.code}] {error}", file=sys.stderr)
        return 2
    print(json.dumps(result.as_dict(), ensure_ascii=False) if args.json else result.text(), flush=True)
    if args.json:
        for cause, times in result.failures.most_common():
            print(f"heliograph bench: {times} × {cause}", file=sys.stderr)
    return 0 if result.ok else 1


def _workload_of(args: argparse.Namespace) -> "Workload":
    from heliograph_bench.endpoint import Transport
    from heliograph_bench.workload import DEFAULT_TOPICS, VERSIONS, Shape, Workload

    shape = Shape(args.shape)
    chosen = {
        "host": args.host,
        "port": _DEFAULT_PORTS[args.transport] if args.port is None else args.port,
        "version": VERSIONS[args.mqtt],
        "keepalive_s": args.keepalive,
        "username": args.username,
        "password": args.password,
        "connect_rate": args.connect_rate,
        "connect_timeout_s": args.connect_timeout,
        "duration_s": args.duration,
        "topic": DEFAULT_TOPICS[shape],
        "transport": Transport(args.transport),
        "cafile": args.cafile,
        "insecure": args.insecure,
        "ws_path": args.ws_path,
    }
    for role in ("publishers", "subscribers", "idle"):
        chosen[role] = getattr(args, role, 0)
    if shape is Shape.PAIR:
        chosen["subscribers"] = args.publishers
    for option in (
        "topic",
        "count",
        "rate",
        "payload_bytes",
        "qos",
        "window",
        "retain",
        "never_matching",
        "session_expiry_s",
        "outstanding",
        "drain_s",
        "precise",
    ):
        if getattr(args, option, None) is not None:
            chosen[option] = getattr(args, option)
    if args.clientid_prefix is not None:
        chosen["clientid_prefix"] = args.clientid_prefix
    if shape not in (Shape.SUB, Shape.CONNECT) and args.duration is None and args.count is None:
        chosen["duration_s"] = 10.0
    return Workload(shape=shape, **chosen)


def _add_clients(parser: argparse.ArgumentParser, shape: str) -> None:
    clients = parser.add_argument_group("clients")
    if shape in ("fan-in", "fan-out"):
        many_publish = shape == "fan-in"
        for role, number in (("publishers", 50 if many_publish else 1), ("subscribers", 1 if many_publish else 50)):
            clients.add_argument(f"--{role}", type=_count, default=number, metavar="N", help=f"(default: {number})")
        return
    role = {"sub": "subscribers", "connect": "idle"}.get(shape, "publishers")
    text = "publishers, and as many subscribers" if shape == "pair" else "clients"
    number = 100 if shape == "connect" else 1
    clients.add_argument(
        "-c", "--clients", dest=role, type=_count, default=number, metavar="N", help=f"{text} (default: {number})"
    )


def _add_connection(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("connection")
    group.add_argument("--host", default="127.0.0.1", help="(default: %(default)s)")
    ports = ", ".join(f"{name} {port}" for name, port in _DEFAULT_PORTS.items())
    group.add_argument("-p", "--port", type=_count, help=f"(default: {ports})")
    group.add_argument("--transport", choices=tuple(_DEFAULT_PORTS), default="tcp", help="(default: %(default)s)")
    group.add_argument("--cafile", metavar="FILE", help="certificates to trust (default: the system's)")
    group.add_argument("--insecure", action="store_true", help="trust any certificate")
    group.add_argument("--ws-path", default="/mqtt", metavar="PATH", help="of the WebSocket (default: %(default)s)")
    group.add_argument("--mqtt", choices=("3.1.1", "5"), default="5", help="protocol version (default: %(default)s)")
    group.add_argument("-u", "--username", metavar="NAME", help="who the clients say they are")
    group.add_argument("-P", "--password", metavar="TEXT", help="their password")
    group.add_argument(
        "--clientid-prefix", metavar="TEXT", help="client ids are PREFIX-pub-1, ... (default: a random one)"
    )
    group.add_argument("--keepalive", type=_keepalive, default=60, metavar="S", help="(default: %(default)s; 0: none)")
    group.add_argument("--connect-rate", type=_positive, metavar="N", help="connections per second (default: no limit)")
    group.add_argument("--connect-timeout", type=_positive, default=10.0, metavar="S", help="(default: %(default)g)")


def _add_messages(parser: argparse.ArgumentParser, shape: str) -> None:
    group = parser.add_argument_group("messages")
    what = "filter" if shape == "sub" else "topic"
    group.add_argument("-t", "--topic", help=f"{what}; %%i: the client's number, from 1; %%c: its client id")
    group.add_argument("-q", "--qos", type=int, choices=(0, 1, 2), default=0, help="(default: %(default)s)")
    if shape != "pub":
        group.add_argument(
            "--session-expiry",
            dest="session_expiry_s",
            type=_count,
            metavar="S",
            help="how long the sessions of subscribers outlive their connections; one that is there already (see "
            "--clientid-prefix) is resumed (default: not at all; MQTT 3.1.1 knows no length)",
        )
    if shape == "sub":
        group.add_argument("-n", "--count", type=_count, metavar="N", help="messages to receive in all")
        return
    group.add_argument(
        "-n", "--count", type=_count, metavar="N", help="messages per publisher (default: publish for --duration 10)"
    )
    group.add_argument("-r", "--rate", type=_positive, metavar="N", help="messages/s per publisher (default: no limit)")
    group.add_argument(
        "--precise",
        action="store_true",
        help="keep to --rate by busy waiting: each message leaves when it is due, not those of a millisecond together",
    )
    group.add_argument(
        "-s",
        "--size",
        dest="payload_bytes",
        type=_count,
        default=64,
        metavar="BYTES",
        help="of a payload (default: 64)",
    )
    group.add_argument(
        "-w", "--window", type=_count, default=64, metavar="N", help="unacknowledged messages (default: 64)"
    )
    group.add_argument("--retain", action="store_true", help="set the retain flag")
    what, seconds = ("the broker to read everything", 30.0) if shape == "pub" else ("missing messages", 3.0)
    group.add_argument(
        "--drain",
        dest="drain_s",
        type=_positive,
        default=seconds,
        metavar="S",
        help=f"how long to wait at the end for {what} (default: {seconds:g})",
    )
    if shape != "pub":
        group.add_argument(
            "--never-matching", type=int, default=0, metavar="N", help="more filters per subscriber, that match nothing"
        )
        group.add_argument(
            "--outstanding",
            type=int,
            metavar="N",
            help="QoS 0 without --rate: messages on the way to a subscriber "
            "(default: what 512 KiB hold, 16 MiB for all; 0: no limit)",
        )


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: a whole number from 1 is expected")
    return int(text)


def _keepalive(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text}: 0 to 65535 seconds are possible")
    return int(text)


def _positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not (number > 0 and math.isfinite(number)):
        raise argparse.ArgumentTypeError(f"{text}: a number above 0 is expected")
    return number
