"""What access rules cost a message: publishers whose publishes are authorized, beside the same without rules.

Ten publishers at QoS 0, each on its topic, to a subscriber each. The broker has a core of its own, and is started anew
for each run; the cases take turns. The ratios are of messages by the broker's own CPU time.

    none         no source of rules
    cached       a file with 20 rules that match none of the topics, then three rules of each client in a PostgreSQL, of
                 which the last one matches; connections remember decisions
    uncached     the built-in database with an exact rule for each topic; nothing is remembered. The rules lie in
                 memory, and what they say about a client's last topic holds until they change
    evaluated    the same with a source behind it that may change unseen: the rules are evaluated for each message

    python benchmarks/access_publish.py [--clients N] [--runs N] [--seconds N]
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import brokers
from benchmarks.brokers import Broker, BrokerError, Kind
from benchmarks.findings import Finding, add_report_options, machine, report
from benchmarks.load import Generator, Load, LoadError

from support.postgresql import Postgresql, postgresql

OUTPUT: Final = Path("bench-output")
_WARM_S: Final = 1.0
_CACHED_MIN: Final = 0.95
_UNCACHED_MIN: Final = 0.85
_DATABASE: Final = (
    '{{ type = postgresql, server = "127.0.0.1:{server.port}", database = {server.database}, '
    'username = {server.user}, password = "{server.password}", query = """{query}""" }}'
)
_THREE_RULES: Final = (
    "SELECT 'allow' AS permission, 'publish' AS action, topic FROM unnest(ARRAY['up/' || ${clientid}::text, 'down/#', "
    "'bench/+']) AS topic WHERE ${username}::text = ''"
)
_NO_RULES: Final = "SELECT 'allow' AS permission, 'all' AS action, 'x' AS topic WHERE ${clientid}::text = ''"
_UNCACHED: Final = "authorization.cache.enable = false\n"


class Cases:
    """The ways to run the broker.

    Args:
        folder: Where files of rules go.
        server: The PostgreSQL that has rules.
    """

    def __init__(self, folder: Path, server: Postgresql) -> None:
        rules = "".join(
            f'{{deny, {{clientid, "other{number}"}}, publish, ["t/{number}/#"]}}.\n' for number in range(20)
        )
        self._file = folder / "acl.conf"
        self._file.write_text(rules)
        self._server = server

    def kind(self, name: str) -> Kind:
        """How the broker of a case is run."""
        file = f'{{ type = file, path = "{self._file.resolve()}" }}'
        sources = {
            "none": "",
            "cached": f"{file}, {self._database(_THREE_RULES)}",
            "uncached": "{ type = built_in_database }",
            "evaluated": f"{{ type = built_in_database }}, {self._database(_NO_RULES)}",
        }[name]
        more = "" if name in ("none", "cached") else _UNCACHED
        settings = f"{more}authorization.sources = [{sources}]\n"
        return Kind(f"heliograph, {name}", settings=settings, is_guarded=False)

    def _database(self, query: str) -> str:
        return _DATABASE.format(server=self._server, query=query)


NAMES: Final = ("none", "cached", "uncached", "evaluated")


def measure(cases: Cases, name: str, clients: int, seconds: float) -> float:
    """Messages by second of the broker's CPU time."""
    broker_core, load_core = brokers.own_core()
    with (
        tempfile.TemporaryDirectory(dir=OUTPUT) as folder,
        Broker(cases.kind(name), Path(folder), broker_core) as broker,
    ):
        if name in ("uncached", "evaluated"):
            _set_rules(broker, clients)
        load = Load("pair", clients, clients)
        Generator(_WARM_S, load_core).run(load, broker)  # until then it connects to the PostgreSQL
        return Generator(seconds, load_core).run(load, broker).per_cpu_second


def _set_rules(broker: Broker, clients: int) -> None:
    rules = [f"allow publish bench/{number}" for number in range(1, clients + 1)]
    command = [sys.executable, "-m", "heliograph.cli.main", "ctl", "acl", "set", "all", *rules]
    subprocess.run([*command, "--data-dir", str(broker.data)], check=True, stdout=subprocess.DEVNULL)


def findings_of(measured: dict[str, list[float]]) -> list[Finding]:
    """The lines of the table."""
    per_second = {name: statistics.median(rates) for name, rates in measured.items()}
    ratios = {
        name: statistics.median([one / none for one, none in zip(rates, measured["none"], strict=True)])
        for name, rates in measured.items()
    }
    return [
        Finding("messages per second of CPU without rules", per_second["none"], ""),
        Finding("20 rules of a file and 3 of a PostgreSQL, remembered", per_second["cached"], ""),
        Finding("the latter beside the former", ratios["cached"], "x", _CACHED_MIN, at_most=False),
        Finding("exact rules of the built-in database, nothing remembered", per_second["uncached"], ""),
        Finding("beside no rules", ratios["uncached"], "x", _UNCACHED_MIN, at_most=False),
        Finding("the same, evaluated for each message", per_second["evaluated"], ""),
        Finding("beside no rules, evaluated", ratios["evaluated"], "x"),
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; the exit code."""
    args = _options(argv)
    OUTPUT.mkdir(exist_ok=True)
    findings: list[Finding] = []
    notes: list[str] = []
    measured: dict[str, list[float]] = {name: [] for name in NAMES}
    with tempfile.TemporaryDirectory(dir=OUTPUT) as folder, postgresql() as server:
        cases = Cases(Path(folder), server)
        try:
            for _ in range(args.runs):
                for name in NAMES:
                    measured[name].append(measure(cases, name, args.clients, args.seconds))
            findings = findings_of(measured)
        except (BrokerError, LoadError, OSError, subprocess.CalledProcessError) as error:
            notes.append(f"FAILED: {error}")
    told = f"median of {args.runs} runs of {args.seconds:g} s, {args.clients} publishers at QoS 0 to a subscriber each"
    conditions = f"{machine()}, {told}"
    return report(args, "access-publish", "", findings, conditions, notes)


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=10, help="that publish (default: %(default)s)")
    parser.add_argument("--runs", type=int, default=5, help="of each case (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each run (default: %(default)s)")
    add_report_options(parser)
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
