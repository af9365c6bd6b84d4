"""What traces cost a message: publishers at a broker that traces, beside the same without traces.

Ten publishers, each on its topic, to a subscriber each. The broker has a core of its own, and is started anew for each
run; the cases take turns. The ratios are of messages by the broker's own CPU time. Nothing fetches the spans: the ring
is full, and the oldest give way.

    off        nothing is traced
    thousandth `sample_ratio = 0.1%` in e2e mode, acknowledgements included
    all        every message is traced
    ways       the ways of messages are recorded, of all topics, as many as the default of `rate` allows
    ways all   those of every message are recorded, as far as memory allows

    python benchmarks/tracing.py [--clients N] [--runs N] [--seconds N]
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import brokers
from benchmarks.brokers import Broker, BrokerError, Kind
from benchmarks.findings import Finding, add_report_options, machine, report
from benchmarks.load import Generator, Load, LoadError

OUTPUT: Final = Path("bench-output")
_WARM_S: Final = 0.5
_THOUSANDTH_MIN: Final = 0.98
_WAYS_MIN: Final = 0.67
_QOS: Final = (0, 1)
_SETTINGS: Final = """
opentelemetry.traces {{
  enable = true
  filter {{
    trace_mode = e2e
    e2e_tracing_options {{ sample_ratio = "{ratio}", client_messaging = true, msg_trace_level = 2 }}
  }}
}}
"""
CASES: Final = {
    "off": "",
    "thousandth": _SETTINGS.format(ratio="0.1%"),
    "all": _SETTINGS.format(ratio="100%"),
    "ways": "diagnose.messages.enable = true",
    "ways all": "diagnose.messages { enable = true, rate = infinity }",
}


def measure(name: str, qos: int, clients: int, seconds: float) -> float:
    """Messages by second of the broker's CPU time."""
    broker_core, load_core = brokers.own_core()
    kind = Kind(f"heliograph, traces {name}", settings=CASES[name], is_guarded=False)
    with (
        tempfile.TemporaryDirectory(dir=OUTPUT) as folder,
        Broker(kind, Path(folder), broker_core) as broker,
    ):
        load = Load("pair", clients, clients, qos=qos)
        Generator(_WARM_S, load_core).run(load, broker)
        return Generator(seconds, load_core).run(load, broker).per_cpu_second


def findings_of(measured: dict[tuple[int, str], list[float]]) -> list[Finding]:
    """The lines of the table."""
    found = []
    for qos in _QOS:
        off = measured[qos, "off"]
        ratios = {
            name: statistics.median([one / none for one, none in zip(measured[qos, name], off, strict=True)])
            for name in CASES
        }
        per_second = statistics.median(off)
        found += [
            Finding(f"messages per second of CPU at QoS {qos} without traces", per_second, ""),
            Finding("a thousandth traced, beside that", ratios["thousandth"], "x", _THOUSANDTH_MIN, at_most=False),
            Finding("all traced, beside none", ratios["all"], "x"),
            Finding("ways recorded, beside none", ratios["ways"], "x", _WAYS_MIN, at_most=False),
            Finding("ways of all, beside none", ratios["ways all"], "x"),
        ]
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; the exit code."""
    args = _options(argv)
    OUTPUT.mkdir(exist_ok=True)
    findings: list[Finding] = []
    notes: list[str] = []
    measured: dict[tuple[int, str], list[float]] = {(qos, name): [] for qos in _QOS for name in CASES}
    try:
        for _ in range(args.runs):
            for qos, name in measured:
                measured[qos, name].append(measure(name, qos, args.clients, args.seconds))
        findings = findings_of(measured)
    except (BrokerError, LoadError, OSError) as error:
        notes.append(f"FAILED: {error}")
    told = f"median of {args.runs} runs of {args.seconds:g} s, {args.clients} publishers to a subscriber each"
    return report(args, "tracing", "", findings, f"{machine()}, {told}", notes)


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=10, help="that publish (default: %(default)s)")
    parser.add_argument("--runs", type=int, default=5, help="of each case (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each run (default: %(default)s)")
    add_report_options(parser)
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
