"""What it costs a message to be validated or transformed, beside the same broker that does neither, in one run.

    python benchmarks/validation.py [--seconds 3] [--runs 3] [--only NAME ...]

The broker has a core of its own; a publisher that writes as fast as it is read and a subscriber that counts share the
other one. `per core` is messages by the broker's own CPU time, what remains comparable on a busy machine.

    plain       publish to one subscriber
    json        every message checked by a JSON Schema; target: 150,000/s
    sql         every message checked by SELECT * WHERE payload.temp < 60
    topic       the client id put before every topic
    payload     a field added to every JSON payload
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.brokers import Broker, Kind, cores, pinned

_LOAD: Final = Path(__file__).with_name("rules_load.py")
_PAYLOAD: Final = '{"station":"KJFK","temp":21.5,"dewp":14.1,"humid":62.3,"wind_dir":270,"wind_speed":11.5}'
_SCHEMA: Final = (
    '{"type":"object","required":["station","temp"],"properties":{"station":{"type":"string"},'
    '"temp":{"type":"number","minimum":-90,"maximum":60},"humid":{"type":"number","minimum":0,"maximum":100},'
    '"wind_speed":{"type":"number","minimum":0}}}'
)


@dataclass(frozen=True)
class Case:
    """One way to run the broker.

    Args:
        name: For `--only`.
        settings: Lines for its configuration.
        target: Messages a second.
        load: Options of `rules_load.py`.
    """

    name: str
    settings: str = ""
    target: int | None = None
    load: tuple[str, ...] = ("--payload", _PAYLOAD)


def _validating(check: str) -> str:
    schema = f'schema_registry.schemas.weather {{ type = json, source = """{_SCHEMA}""" }}\n'
    return f'{schema}schema_validation.validations = [{{ name = v, topics = "t/#", checks = [{check}] }}]\n'


def _transforming(operation: str, settings: str = "") -> str:
    return (
        'message_transformation.transformations = [{ name = t, topics = "t/#", failure_action = drop\n'
        f"{settings}\noperations = [{operation}] }}]\n"
    )


CASES: Final = (
    Case("plain"),
    Case("json", _validating("{ type = json, schema = weather }"), 150_000),
    Case("sql", _validating('{ type = sql, sql = "SELECT * WHERE payload.temp < 60" }')),
    Case(
        "topic",
        _transforming("{ key = topic, value = \"concat([clientid, '/', topic])\" }"),
        load=("--payload", _PAYLOAD, "--listen", "sending/#", "--answer-topic", "sending/t/1"),
    ),
    Case(
        "payload",
        _transforming(
            '{ key = payload.by, value = "clientid" }', "payload_decoder.type = json, payload_encoder.type = json"
        ),
        load=("--payload", _PAYLOAD, "--answer", f'{_PAYLOAD[:-1]},"by":"sending"}}'),
    ),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [case.name for case in CASES]
    parser.add_argument("--only", nargs="+", choices=names, default=names, help="these alone")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of a run (default: %(default)g)")
    parser.add_argument("--runs", type=int, default=3, help="runs of each; the median counts (default: %(default)s)")
    args = parser.parse_args(argv)
    print(f"{'case':12}{'messages/s':>14}{'per core':>14}{'of plain':>10}   target")
    plain: float | None = None
    for case in CASES:
        if case.name not in args.only:
            continue
        rates = [_measure(case, args.seconds) for _ in range(args.runs)]
        rate, per_core = (statistics.median(column) for column in zip(*rates, strict=True))
        plain = per_core if case.name == "plain" else plain
        ratio = "" if plain is None else f"{per_core / plain:.2f}"
        verdict = "" if case.target is None else f"{case.target:,}/s, {'met' if rate >= case.target else 'missed'}"
        print(f"{case.name:12}{rate:14,.0f}{per_core:14,.0f}{ratio:>10}   {verdict}", flush=True)
    return 0


def _measure(case: Case, seconds: float) -> tuple[float, float]:
    """Messages a second, and messages by second of the broker's CPU time."""
    broker_core, load_core = cores()
    kind = Kind(f"heliograph, {case.name}", settings=case.settings)
    with (
        tempfile.TemporaryDirectory() as folder,
        Broker(kind, Path(folder) / "b", broker_core) as broker,
    ):
        before = broker.cpu_seconds()
        words = [sys.executable, str(_LOAD), "--port", str(broker.port), "--seconds", str(seconds), *case.load]
        result = _json_of(pinned(words, load_core))
        spent = broker.cpu_seconds() - before
        broker.check()
    return result["received"] / result["seconds"], result["total"] / spent


def _json_of(command: list[str]) -> Any:
    finished = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return json.loads(finished.stdout)


if __name__ == "__main__":
    sys.exit(main())
