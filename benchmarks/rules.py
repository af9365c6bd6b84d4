"""Rules, validation and transformation: what they cost a message, beside the same broker without, in one run.

    python benchmarks/rules.py [--seconds 3] [--runs 3] [--only NAME ...]

The broker has a core of its own; a publisher that writes as fast as it is read and a subscriber that counts share the
other one. `per core` is messages by the broker's own CPU time, what remains comparable on a busy machine.

    plain       publish to one subscriber, no rules
    foreign     the same with 10,000 rules on 10,000 other topics; target: at least 0.9 of plain
    wildcards   the same with 10,000 rules on `other/<n>/+/#`
    republish   SELECT payload.a AS a FROM "t/#" WHERE payload.b > 10, republished to the subscriber; 250,000/s
    filtered    the same rule, whose WHERE no message meets; the subscriber has the messages themselves
    schema      every message checked by a JSON Schema; 150,000/s
    check       every message checked by SELECT * WHERE payload.temp < 60
    topic       a transformation puts the client id before every topic
    payload     a transformation adds a field to every JSON payload
    jq          p99 of 1,000 messages/s of others while jq('def f: f; f', payload) runs into its timeout; 50 ms
    parsing     creating the rule of `republish`, in process; at most 1 ms
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.brokers import Broker, Kind, cores, pinned
from benchmarks.findings import checked
from benchmarks.load import Generator, Load

_LOAD: Final = Path(__file__).with_name("rules_load.py")
_RULE: Final = 'SELECT payload.a AS a FROM "t/#" WHERE payload.b > 10 '
_PAYLOAD: Final = '{"a":1,"b":20}'
_ROW: Final = '{"a":1}'
_WEATHER: Final = '{"station":"KJFK","temp":21.5,"dewp":14.1,"humid":62.3,"wind_dir":270,"wind_speed":11.5}'
_SCHEMA: Final = (
    '{"type":"object","required":["station","temp"],"properties":{"station":{"type":"string"},'
    '"temp":{"type":"number","minimum":-90,"maximum":60},"humid":{"type":"number","minimum":0,"maximum":100},'
    '"wind_speed":{"type":"number","minimum":0}}}'
)
_JQ_TOPIC: Final = "loop/x"


@dataclass(frozen=True)
class Case:
    """One way to run the broker.

    Args:
        name: For `--only`.
        settings: Lines for its configuration.
        target: Messages a second, or (below 10) the share of `plain`.
        load: Options of `rules_load.py`.
        payload: What is published.
    """

    name: str
    settings: str = ""
    target: float | None = None
    load: tuple[str, ...] = ()
    payload: str = _PAYLOAD


def _republishing(sql: str) -> str:
    action = '{ function = republish, args { topic = "out", payload = "${.}" } }'
    return f'rule_engine.rules.r1 {{ sql = """{sql}""", actions = [{action}] }}\n'


def _many_rules(topic: str) -> str:
    rules = "".join(
        f'r{number} {{ sql = """SELECT payload.a AS a FROM \'{topic.format(number)}\'""", actions = [console] }}\n'
        for number in range(10_000)
    )
    return f"rule_engine.rules {{\n{rules}}}\n"


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
    Case("foreign", _many_rules("other/{}"), 0.9),
    Case("wildcards", _many_rules("other/{}/+/#"), 0.9),
    Case(
        "republish",
        _republishing(_RULE),
        250_000,
        ("--listen", "out", "--answer-topic", "out", "--answer", _ROW),
    ),
    Case("filtered", _republishing(_RULE.replace("10", "99"))),
    Case("schema", _validating("{ type = json, schema = weather }"), 150_000, payload=_WEATHER),
    Case("check", _validating('{ type = sql, sql = "SELECT * WHERE payload.temp < 60" }'), payload=_WEATHER),
    Case(
        "topic",
        _transforming("{ key = topic, value = \"concat([clientid, '/', topic])\" }"),
        load=("--listen", "sending/#", "--answer-topic", "sending/t/1"),
        payload=_WEATHER,
    ),
    Case(
        "payload",
        _transforming(
            '{ key = payload.by, value = "clientid" }', "payload_decoder.type = json, payload_encoder.type = json"
        ),
        load=("--answer", f'{_WEATHER[:-1]},"by":"sending"}}'),
        payload=_WEATHER,
    ),
)
_OTHERS: Final = ("jq", "parsing")
_MISSED: Final = "missed"
_JQ_P99_MS_MAX: Final = 50
_PARSING_MS_MAX: Final = 1


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [*(case.name for case in CASES), *_OTHERS]
    parser.add_argument("--only", nargs="+", choices=names, help="these alone")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of a run (default: %(default)g)")
    parser.add_argument("--runs", type=int, default=3, help="runs of each; the median counts (default: %(default)s)")
    parser.add_argument("--check", action="store_true", help="exit 1 if a limit is broken")
    args = parser.parse_args(argv)
    missed: list[str] = []
    wanted = set(args.only or names)
    print(f"{'case':12}{'messages/s':>14}{'per core':>14}{'of plain':>10}   target")
    plain: float | None = None
    for case in CASES:
        if case.name not in wanted:
            continue
        try:
            rates = [_measure(case, args.seconds) for _ in range(args.runs)]
        except Exception as error:  # noqa: BLE001 - the other cases can still be measured
            print(f"{case.name:12}failed: {error}")
            missed.append(f"{case.name}: {error}")
            continue
        rate, per_core = (statistics.median(column) for column in zip(*rates, strict=True))
        plain = per_core if case.name == "plain" else plain
        ratio = "" if plain is None else f"{per_core / plain:.2f}"
        verdict = _verdict(case, per_core, plain)
        print(f"{case.name:12}{rate:14,.0f}{per_core:14,.0f}{ratio:>10}   {verdict}")
        if verdict.endswith(_MISSED):
            missed.append(case.name)
    if "jq" in wanted and _measure_jq(args.seconds) > _JQ_P99_MS_MAX:
        missed.append("jq, looping")
    if "parsing" in wanted and _measure_parsing() > _PARSING_MS_MAX:
        missed.append("parsing")
    return checked(args.check, missed)


def _verdict(case: Case, per_core: float, plain: float | None) -> str:
    if case.target is None:
        return ""
    if case.target < 10:
        met = plain is not None and per_core / plain >= case.target
        return f"{case.target:g} of plain, {'met' if met else _MISSED}"
    return f"{case.target:,.0f}/s per core, {'met' if per_core >= case.target else _MISSED}"


def _measure(case: Case, seconds: float) -> tuple[float, float]:
    """Messages a second, and messages by second of the broker's CPU time."""
    broker_core, load_core = cores()
    with (
        tempfile.TemporaryDirectory() as folder,
        Broker(Kind(f"heliograph, {case.name}", settings=case.settings), Path(folder) / "b", broker_core) as broker,
    ):
        before = broker.cpu_seconds()
        words = [sys.executable, str(_LOAD), "--port", str(broker.port), "--seconds", str(seconds)]
        result = _json_of(pinned([*words, "--payload", case.payload, *case.load], load_core))
        spent = broker.cpu_seconds() - before
        broker.check()
    return result["received"] / result["seconds"], result["total"] / spent


def _json_of(command: list[str]) -> Any:
    finished = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return json.loads(finished.stdout)


def _measure_jq(seconds: float) -> float:
    """Latency of others while a rule loops for ever in jq, and without that; the p99 in the first case, in ms."""
    broker_core, load_core = cores()
    sql = f"SELECT jq('def f: f; f', payload, 1000) AS a FROM '{_JQ_TOPIC}' "
    settings = f'rule_engine.rules.r1 {{ sql = """{sql}""", actions = [console] }}\n'
    load = Load("pair", publishers=1, subscribers=1, rate=1000.0)
    for name in ("jq, idle", "jq, looping"):
        kind = Kind(name, settings=settings)
        with tempfile.TemporaryDirectory() as folder, Broker(kind, Path(folder) / "b", broker_core) as broker:
            stop = threading.Event()
            feeder = threading.Thread(target=_feed_loops, args=(broker.port, stop))
            if name.endswith("looping"):
                feeder.start()
            measured = Generator(max(seconds, 3.0), load_core).run(load, broker)
            stop.set()
            if feeder.ident is not None:
                feeder.join()
        verdict = f"target {_JQ_P99_MS_MAX} ms" if name.endswith("looping") else ""
        print(f"{name:12}p50 {measured.p50_us / 1000:.2f} ms, p99 {measured.p99_us / 1000:.2f} ms   {verdict}")
    return measured.p99_us / 1000


def _feed_loops(port: int, stop: threading.Event) -> None:
    """Have the rule that loops evaluated all the time: ten messages a second."""
    from benchmarks.rules_load import connect, publish_packet

    packet = publish_packet(_JQ_TOPIC.encode(), b"{}")
    with connect(port, "loops") as client:
        while not stop.wait(0.1):
            client.sendall(packet)


def _measure_parsing() -> float:
    """How long it takes to create a rule, in ms."""
    from heliograph.rules.evaluator import CompiledRule

    CompiledRule(_RULE)
    began = time.perf_counter()
    for _ in range(200):
        CompiledRule(_RULE)
    each_ms = (time.perf_counter() - began) * 1000 / 200
    print(f"{'parsing':12}{each_ms:.3f} ms a rule   target {_PARSING_MS_MAX} ms")
    return each_ms


if __name__ == "__main__":
    sys.exit(main())
