"""What clients notice of others whose authenticator waits for a slow database.

A node has two listeners. Ten clients of the first one, which has no authenticators, exchange 1,000 messages/s at QoS 1.
At the second one, clients log in with names that a PostgreSQL looks up with `pg_sleep`, so that they wait for its pool
of eight connections, most of them until their deadline, and connect again. The load is taken without and with them in
turn; the ratio of the p99 is the median of such pairs. PostgreSQL is started for it, and runs at a low priority.

    python benchmarks/access_slow_backend.py [--clients N] [--pairs N] [--seconds N]
"""

import argparse
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import brokers
from benchmarks.brokers import HELIOGRAPH, Broker, BrokerError
from benchmarks.findings import Finding, add_report_options, machine, report
from benchmarks.logins import Logins
from benchmarks.noticed import noticed
from benchmarks.peers import PeerError

from support.mosquitto import free_port
from support.postgresql import Postgresql, postgresql

OUTPUT: Final = Path("bench-output")
_RATIO_MAX: Final = 1.5
_SETTINGS: Final = """
listeners.tcp.slow {{
  bind = "127.0.0.1:{port}"
  authentication = [{{
    mechanism = password_based, backend = postgresql, server = "127.0.0.1:{server.port}", database = {server.database}
    username = {server.user}, password = "{server.password}", password_hash_algorithm.name = plain
    query = "SELECT 'secret' AS password, pg_sleep({sleep})::text FROM generate_series(1, 1) WHERE ${{username}} <> ''"
  }}]
}}
"""


def measure(broker: Broker, slow_port: int, clients: int, pairs: int, seconds: float) -> list[Finding]:
    """Take the pairs in turn."""
    codes: Counter[int] = Counter()
    found = noticed(
        broker,
        lambda: Logins(slow_port, clients, 0, codes),
        pairs,
        seconds,
        (
            "p99 of QoS 1 messages, without logins",
            f"the same while {clients:,} clients wait for a slow PostgreSQL",
        ),
        _RATIO_MAX,
    )
    if not codes:
        raise BrokerError("no client was answered at the slow listener")
    return [*found, Finding("logins answered per second meanwhile", codes.total() / (pairs * seconds), "")]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; the exit code."""
    args = _options(argv)
    brokers.allow_open_files()
    broker_core, _ = brokers.own_core()
    OUTPUT.mkdir(exist_ok=True)
    findings: list[Finding] = []
    notes: list[str] = []
    with tempfile.TemporaryDirectory(dir=OUTPUT) as folder, postgresql() as server:
        _make_nice(server)
        port = free_port()
        settings = _SETTINGS.format(port=port, server=server, sleep=args.sleep)
        try:
            with Broker(replace(HELIOGRAPH, settings=settings), Path(folder), broker_core) as broker:
                findings = measure(broker, port, args.clients, args.pairs, args.seconds)
        except (BrokerError, PeerError, OSError) as error:
            notes.append(f"FAILED: {error}")
    told = f"{args.pairs} pairs of {args.seconds:g} s, each answer of PostgreSQL takes {args.sleep:g} s"
    conditions = f"{machine()}, {told}"
    return report(args, "access-slow-backend", "", findings, conditions, notes)


def _make_nice(server: Postgresql) -> None:
    assert server.server is not None
    os.setpriority(os.PRIO_PROCESS, server.server.pid, 10)  # its children are born with it


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=500, help="that log in (default: %(default)s)")
    parser.add_argument("--sleep", type=float, default=1.0, help="seconds of an answer (default: %(default)s)")
    parser.add_argument("--pairs", type=int, default=5, help="of runs without and with logins (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=6.0, help="of each run (default: %(default)s)")
    add_report_options(parser)
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
