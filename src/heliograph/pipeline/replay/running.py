"""Runs a replay: finds the rules, evaluates them, reports progress and gives the result as JSON; no action runs."""

import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from heliograph.pipeline.replay.findings import ReplayFindings
from heliograph.pipeline.replay.request import ReplayError, ReplayRequest
from heliograph.pipeline.replay.resolving import BROKER, ReplayedRule, Resolver
from heliograph.rules.errors import RuleSyntaxError
from heliograph.rules.output import call_faults, functions_called, variables_read
from heliograph.rules.schemas.settings import SchemaSourceError

Tell = Callable[[dict[str, Any]], None]
"""Takes `{"began": ...}` once, and `{"progress": ...}` some times a second."""
_KEPT: Final = ("kv_store_put", "kv_store_del", "proc_dict_put", "proc_dict_del")
_LIVE_COLUMNS: Final = ("peerhost", "peername", "node", "client_attrs", "headers")
_CLOCK: Final = "now_"
_TARGETS: Final = {
    "republish": "would be published to {target}",
    "console": "would be written to the log",
    "pipeline": "would be written to {target}",
}

_REPORTED_EVERY_S: Final = 0.25


def run_replay(request: ReplayRequest, tell: Tell) -> dict[str, Any]:
    if request.since >= request.until:
        raise ReplayError("the stretch is empty: its end is not after its beginning", "to")
    resolver = Resolver(request)
    rule, other = resolver.rule(), resolver.compared()
    if other is not None and other.database != rule.database:
        raise ReplayError(
            f"one rule reads {rule.database}, the other {other.database}: compare rules of one", "compare"
        )
    tell({"began": {"rule": _shown(rule), "compare": None if other is None else _shown(other)}})
    run = _on_spark if request.engine == "spark" else _in_broker_engine
    try:
        findings, seconds, is_complete = run(request, rule, other, tell)
    except SchemaSourceError as error:
        raise ReplayError(f"a schema cannot be made: {error}") from error
    except RuleSyntaxError as error:
        raise ReplayError(f"[{error.code}] {error}", "rule") from error
    notes = notes_of(request, rule, other)
    return report(findings, rule, other, seconds=seconds, is_complete=is_complete, notes=notes)


def _in_broker_engine(
    request: ReplayRequest, rule: ReplayedRule, other: ReplayedRule | None, tell: Tell
) -> tuple[ReplayFindings, float, bool]:
    from heliograph.pipeline.replay.broker_engine import BrokerReplay, environments_of

    last = 0.0

    def progress(share: float, findings: ReplayFindings) -> None:
        nonlocal last
        if time.monotonic() - last >= _REPORTED_EVERY_S:
            last = time.monotonic()
            tell({"progress": {"share": round(share, 4), **findings.rule}})

    with environments_of(request) as environments:
        replay = BrokerReplay(request, rule, other, environments)
        begin = time.monotonic()
        is_complete = replay.run(progress)
        return replay.findings, time.monotonic() - begin, is_complete


def _on_spark(
    request: ReplayRequest, rule: ReplayedRule, other: ReplayedRule | None, tell: Tell
) -> tuple[ReplayFindings, float, bool]:
    # Imported here: the other engine needs no Spark, which may not even be installed.
    try:
        from heliograph.pipeline.replay.spark_engine import run_on_spark
    except ImportError as error:
        text = f"{error.name} is not installed: pip install 'heliograph[pipeline]'"
        raise ReplayError(text, "engine") from None
    findings, seconds = run_on_spark(request, rule, other, lambda share: tell({"progress": {"share": round(share, 4)}}))
    return findings, seconds, True


def _shown(rule: ReplayedRule) -> dict[str, Any]:
    return {
        "name": rule.name,
        "of": rule.kind,
        "sql": rule.sql,
        "is_edited": rule.is_edited,
        "topics": list(rule.topics),
        "database": rule.database,
    }


def report(
    findings: ReplayFindings,
    rule: ReplayedRule,
    other: ReplayedRule | None,
    *,
    seconds: float,
    is_complete: bool,
    notes: list[str],
) -> dict[str, Any]:
    counts = findings.rule
    result: dict[str, Any] = {
        "complete": is_complete,
        "seconds": round(seconds, 3),
        **_counts(counts),
        "messages_per_second": round(counts["messages"] / seconds) if seconds else 0,
        "rows_per_second": round(counts["rows"] / seconds) if seconds else 0,
        "rows": findings.sorted_examples("rows"),
        "failures": findings.sorted_examples("failures"),
        "not_done": [*_not_done(rule, counts["rows"])],
        "notes": notes,
    }
    if other is not None:
        result["comparison"] = {
            **{f"compared_{name}": count for name, count in _counts(findings.compared).items()},
            **{f"{name}_count": count for name, count in findings.differences.items()},
            **{name: findings.sorted_examples(name) for name in ("added", "gone", "changed")},
        }
    return result


def notes_of(request: ReplayRequest, rule: ReplayedRule, other: ReplayedRule | None) -> list[str]:
    rules = [rule] if other is None else [rule, other]
    return list(dict.fromkeys(note for one in rules for note in _notes(request, one)))


def _notes(request: ReplayRequest, rule: ReplayedRule) -> Iterator[str]:
    tree = rule.tree
    left_out = [topic for topic in tree.topics if topic not in rule.topics]
    if left_out:
        yield f"events are not stored, so {', '.join(left_out)} of FROM gives nothing here"
    yield from call_faults(tree)
    called = functions_called(tree)
    if any(name in _KEPT for name in called):
        yield "values that functions keep (kv_store_put, proc_dict_put) begin with none and are forgotten at the end"
    if any(name.startswith(_CLOCK) for name in called):
        yield "functions of the clock (now_timestamp and others) tell the time of the replay"
    read = variables_read(tree)
    undefined = [name for name in _LIVE_COLUMNS if read is not None and name in read]
    if undefined:
        yield f"undefined, since no stored message has it: {', '.join(undefined)}"
    if request.engine == "spark":
        yield "on Spark a column whose kind the payload decides is text, where no type is declared for it"


def _counts(counts: dict[str, int]) -> dict[str, int]:
    names = {"messages": "messages", "rows": "rows_count", "failures": "failures_count", "no_result": "no_result_count"}
    return {shown: counts[name] for name, shown in names.items()}


def _not_done(rule: ReplayedRule, rows: int) -> Iterator[dict[str, Any]]:
    for kind, target in rule.targets:
        target = target or (f"the pipeline as {rule.name}" if rule.kind == BROKER else "")
        words = _TARGETS.get(kind, "would be given to the action {target}").format(target=target)
        yield {"action": kind, "target": target, "rows": rows, "what": f"{rows:,} rows {words}"}
