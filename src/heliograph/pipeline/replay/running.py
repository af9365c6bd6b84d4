"""Runs a replay: finds the rules, evaluates, reports progress, gives the result. Nothing is done with the rows."""

import time
from collections.abc import Callable
from typing import Any, Final

from heliograph.pipeline.replay.findings import ReplayFindings
from heliograph.pipeline.replay.report import notes_of, report
from heliograph.pipeline.replay.request import ReplayError, ReplayRequest
from heliograph.pipeline.replay.resolving import ReplayedRule, Resolver
from heliograph.rules.errors import RuleSyntaxError
from heliograph.rules.schemas.settings import SchemaSourceError

Tell = Callable[[dict[str, Any]], None]
"""Takes `{"began": ...}` once, and `{"progress": ...}` some times a second."""

_TOLD_EVERY_S: Final = 0.25


def run_replay(request: ReplayRequest, tell: Tell) -> dict[str, Any]:
    """Run one; its result.

    Raises:
        ReplayError: It cannot be run so.
        PipelineError: The storage reader or Spark cannot be used.
    """
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
        if time.monotonic() - last >= _TOLD_EVERY_S:
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
        told = f"{error.name} is not installed: pip install 'heliograph[pipeline]'"
        raise ReplayError(told, "engine") from None
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
