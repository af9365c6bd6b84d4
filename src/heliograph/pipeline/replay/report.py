"""The result of a replay as JSON: counts, rates, examples, the comparison, and what would have been done."""

from collections.abc import Iterator
from typing import Any, Final

from heliograph.pipeline.replay.findings import ReplayFindings
from heliograph.pipeline.replay.request import ReplayRequest
from heliograph.pipeline.replay.resolving import BROKER, ReplayedRule
from heliograph.rules.calls import call_faults
from heliograph.rules.output import functions_called, variables_read

_KEPT: Final = ("kv_store_put", "kv_store_del", "proc_dict_put", "proc_dict_del")
_LIVE_COLUMNS: Final = ("peerhost", "peername", "node", "client_attrs", "headers")
_CLOCK: Final = "now_"
_TARGETS: Final = {
    "republish": "would be published to {target}",
    "console": "would be written to the log",
    "pipeline": "would be written to {target}",
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
    """The result.

    Args:
        seconds: How long the evaluation took.
        is_complete: Whether all of the stretch was read in the time that there was.
        notes: What is to be known of it.
    """
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
    """What readers of the result should know."""
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
    """What the rule would have done with its rows."""
    for kind, target in rule.targets:
        target = target or (f"the pipeline as {rule.name}" if rule.kind == BROKER else "")
        words = _TARGETS.get(kind, "would be given to the action {target}").format(target=target)
        yield {"action": kind, "target": target, "rows": rows, "what": f"{rows:,} rows {words}"}
