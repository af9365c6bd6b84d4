"""What the actions of `heliograph pipeline` do. Their options are `heliograph.cli.pipeline`'s."""

import argparse
import json
import logging
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread
from typing import Any, Final

from pyspark.sql import SparkSession

from heliograph.cli.pipeline_letters import output_that_is_there, table_text
from heliograph.pipeline.datasource.option_texts import parse_endpoint
from heliograph.pipeline.datasource.options import SourceOptions
from heliograph.pipeline.errors import OptionError
from heliograph.pipeline.files.definition import Pipeline
from heliograph.pipeline.files.rulefile import load_pipeline
from heliograph.pipeline.running.backfill import BACKFILLS, plan_backfill
from heliograph.pipeline.running.checkpoint_lock import checkpoint_lock, running_driver
from heliograph.pipeline.running.driver import STATUS_FILE, FileWatch, PipelineDriver
from heliograph.pipeline.running.figures import FAILED, FINISHED, INTERRUPTED, QueryFigures, summary_table
from heliograph.pipeline.running.identity import claim_output
from heliograph.pipeline.running.planned_columns import planned_fields
from heliograph.pipeline.running.preview import Preview, preview_queries
from heliograph.pipeline.running.queries import RunSettings, Span, check_pipeline
from heliograph.pipeline.running.ranges import ZONE_SETTING
from heliograph.pipeline.side_outputs.late_table import count_late_rows, late_target, replay_late_rows, show_late_rows
from heliograph.pipeline.side_outputs.letter_replay import replay_letters
from heliograph.pipeline.side_outputs.replayed_files import REPLAYS
from heliograph.pipeline.sinks.libraries import library_fault
from heliograph.pipeline.sinks.probing import table_changes, target_fault
from heliograph.pipeline.spark.jre import find_java
from heliograph.pipeline.spark.session import start_session, stop_session
from heliograph.processes.signals import on_signals

_log = logging.getLogger("heliograph.pipeline")

_TOKEN_VARIABLE: Final = "HELIOGRAPH_PIPELINE_TOKEN"


def _validate(args: argparse.Namespace) -> int:
    pipeline = load_pipeline(*_files(args))
    if args.no_spark:
        if args.java:
            find_java()
        return _validate_without_spark(pipeline)
    with _session(args) as session:
        checked = check_pipeline(session, pipeline, _source(args))
    for name in checked:
        print(f"{name}: {pipeline.job(name).origin}: valid")
    return 0


def _validate_without_spark(pipeline: Pipeline) -> int:
    faults = 0
    for name in pipeline.query_names:
        fault = library_fault(pipeline.sink(name))
        faults += fault is not None
        text = f"{name}: {pipeline.job(name).origin}: {fault or 'valid'}"
        print(text, file=sys.stdout if fault is None else sys.stderr)
    return 2 if faults else 0


def _probe(args: argparse.Namespace) -> int:
    pipeline = load_pipeline(*_files(args))
    faults = 0
    for name in pipeline.query_names:
        sink, fields = pipeline.sink(name), planned_fields(pipeline.job(name))
        fault = target_fault(sink, args.mqtt)
        changes: Sequence[str] = ()
        if fault is None and fields is not None:
            changes, fault = table_changes(sink, fields, args.output)
        faults += fault is not None
        text = f"{name}: {fault or ', '.join(('can be reached', *changes))}"
        print(text, file=sys.stdout if fault is None else sys.stderr)
    return 1 if faults else 0


def _plan(args: argparse.Namespace) -> int:
    pipeline = load_pipeline(*_files(args))
    names = _names(pipeline, args.rule)
    with _session(args) as session:
        for preview in preview_queries(session, pipeline, names, _source(args), args.last, args.output):
            print(json.dumps(preview.to_json(), default=_plain) if args.json else _preview_text(preview), flush=True)
    return 0


def _run(args: argparse.Namespace) -> int:
    settings = _settings(args, args.trigger)
    watch = None if args.no_reload else FileWatch(*_files(args))
    pipeline = load_pipeline(*_files(args))
    with checkpoint_lock(settings.checkpoint) as lock:
        claim_output(settings.checkpoint, settings.output)
        return _drive(args, pipeline, settings, lock, watch=watch)


def _once(args: argparse.Namespace) -> int:
    pipeline, settings = load_pipeline(*_files(args)), _settings(args, None)
    with checkpoint_lock(settings.checkpoint) as lock:
        claim_output(settings.checkpoint, settings.output)
        return _drive(args, pipeline, settings, lock)


def _backfill(args: argparse.Namespace) -> int:
    pipeline = load_pipeline(*_files(args))
    settings = _settings(args, None)
    names = _names(pipeline, args.rule)
    # A backfill has checkpoints of its own, so the pipeline may run beside it; two backfills may not.
    own = replace(settings, checkpoint=settings.checkpoint / BACKFILLS)
    with checkpoint_lock(own.checkpoint) as lock:
        claim_output(settings.checkpoint, settings.output)
        spans = plan_backfill(pipeline, names, settings, args.since, args.until)
        for name, span in spans.items():
            _log.info("%s: from %s until %s", name, span.start, _time(span.until))
        return _drive(args, pipeline, own, lock, spans=spans)


def _status(args: argparse.Namespace) -> int:
    holder = running_driver(args.checkpoint)
    document = {"running": holder is not None, "process": holder, **_read_status(args.checkpoint, holder)}
    if holder is None:
        _tell_interrupted(document["queries"])
    if args.json:
        print(json.dumps(document))
    else:
        print(f"running, process {holder}" if holder is not None else "not running; the figures are of the last run")
        print(_status_table(document["queries"]))
        for name, size in document.get("side_tables", {}).items():
            removed = f"; {size['removed']:,} were beyond their retention" if size["removed"] else ""
            if size["rows"] or removed:
                print(f"{name}: {size['rows']:,} rows in {size['batches']:,} batches, {size['bytes']:,} bytes{removed}")
        if document.get("reload_error"):
            print(document["reload_error"])
    return 0 if holder is not None else 1


def _tell_interrupted(queries: Sequence[dict[str, Any]]) -> None:
    """Say of queries that were not ended in order that they do not run, and that their lag is not known."""
    for query in queries:
        if query["state"] not in (FINISHED, FAILED):
            query["state"], query["lag"] = INTERRUPTED, None


def _read_status(checkpoint: Path, holder: int | None) -> dict[str, Any]:
    """What the driver wrote last; of one that is starting, that there are no figures yet."""
    try:
        document = json.loads((checkpoint / STATUS_FILE).read_bytes())
    except FileNotFoundError:
        document = {"queries": []} if holder is not None else None
    except ValueError:
        document = None
    if not isinstance(document, dict) or "queries" not in document:
        raise OptionError("--checkpoint", str(checkpoint), "the checkpoint of a pipeline that has run")
    return document


def _dlq_replay(args: argparse.Namespace) -> int:
    pipeline = load_pipeline(*_files(args))
    settings = _settings(args, None)
    (name,) = _names(pipeline, args.rule)
    # Two replays at once would bring the same letters twice, or the same late rows.
    with checkpoint_lock(settings.checkpoint / REPLAYS) as lock:
        claim_output(settings.checkpoint, settings.output)
        with _session(args, [lock]) as session:
            replayed = replay_letters(session, pipeline, name, settings)
    print(json.dumps(replayed.to_json()) if args.json else replayed.to_text())
    return 0


def _late_ls(args: argparse.Namespace) -> int:
    counts = count_late_rows(output_that_is_there(args) / args.path)
    if args.json:
        for count in counts:
            print(json.dumps(count.to_json()))
        return 0
    print(table_text([("query", "view", "waiting", "replayed", "newest"), *(count.cells() for count in counts)]))
    return 0


def _late_show(args: argparse.Namespace) -> int:
    for row in show_late_rows(args.output / args.path, args.query, args.limit, args.all):
        replayed = f", replayed {row['replayed_at']}" if row["replayed_at"] else ""
        print(json.dumps(row) if args.json else f"{row['event_time']}  {row['view']}: {row['row']}{replayed}")
    return 0


def _late_replay(args: argparse.Namespace) -> int:
    pipeline = load_pipeline(*_files(args))
    settings = _settings(args, None)
    (name,) = _names(pipeline, args.query)
    target = late_target(pipeline, args.table, args.sink)
    with checkpoint_lock(settings.checkpoint / REPLAYS) as lock:
        claim_output(settings.checkpoint, settings.output)
        with _session(args, [lock]) as session:
            replayed = replay_late_rows(session, pipeline, name, settings, target, args.view)
    print(json.dumps(replayed.to_json()) if args.json else replayed.to_text())
    return 0


ACTIONS: Final[dict[str, Callable[[argparse.Namespace], int]]] = {
    "validate": _validate,
    "plan": _plan,
    "probe": _probe,
    "run": _run,
    "once": _once,
    "backfill": _backfill,
    "status": _status,
    "dlq replay": _dlq_replay,
    "late ls": _late_ls,
    "late show": _late_show,
    "late replay": _late_replay,
}


def _drive(
    args: argparse.Namespace,
    pipeline: Pipeline,
    settings: RunSettings,
    lock: int,
    *,
    watch: FileWatch | None = None,
    spans: dict[str, Span] | None = None,
) -> int:
    """Run a pipeline whose checkpoint is locked; Spark's Java process holds the lock too."""
    spark_log = args.spark_log or settings.checkpoint / "spark.log"
    _log.info("starting Spark (%s), its log is %s", args.master, spark_log)
    session = start_session(args.master, "heliograph pipeline", dict(args.conf), log_file=spark_log, pass_fds=[lock])
    try:
        driver = PipelineDriver(session, pipeline, settings, watch=watch, spans=spans)
        on_signals({signal.SIGTERM: driver.stop, signal.SIGINT: driver.stop, signal.SIGHUP: driver.reload})
        if getattr(args, "watch_stdin", False):
            Thread(target=_stop_at_end_of_input, args=(driver,), name="stdin", daemon=True).start()
        _log.info("running %s", ", ".join(spans or pipeline.query_names))
        succeeded = driver.run()
    finally:
        stop_session(session)
    _print_figures(driver.figures, args.json)
    return 0 if succeeded else 1


@contextmanager
def _session(args: argparse.Namespace, pass_fds: Sequence[int] = ()) -> Iterator[SparkSession]:
    """A session of an action that needs no checkpoint, with its log in a place that goes with it."""
    with tempfile.TemporaryDirectory(prefix="heliograph-pipeline-") as directory:
        log_file = args.spark_log or Path(directory) / "spark.log"
        conf = dict(args.conf)
        session = start_session(args.master, "heliograph pipeline", conf, log_file=log_file, pass_fds=pass_fds)
        try:
            yield session
        finally:
            stop_session(session)


def _source(args: argparse.Namespace) -> dict[str, str]:
    source = {"endpoint": args.endpoint, "start": args.start, "timeZone": dict(args.conf).get(ZONE_SETTING, "UTC")}
    if args.max_messages_per_trigger is not None:
        source["maxMessagesPerTrigger"] = str(args.max_messages_per_trigger)
    if args.tls_ca is not None:
        _read_text("--tls-ca", Path(args.tls_ca))
        source["tlsCa"] = args.tls_ca
    token = os.environ.get(_TOKEN_VARIABLE)
    if args.token_file is not None:
        token = _read_text("--token-file", args.token_file).strip()
        if not token:
            raise OptionError("--token-file", str(args.token_file), "a file with a token in it; it is empty")
    if token:
        source["token"] = token
    SourceOptions.of(source)
    return source


def _read_text(option: str, file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(option, str(file), f"a file that can be read ({error})") from error


def _settings(args: argparse.Namespace, trigger_s: float | None) -> RunSettings:
    parse_endpoint("--mqtt", args.mqtt, "127.0.0.1:1883")
    return RunSettings(args.checkpoint, args.output, args.mqtt, _source(args), trigger_s)


def _files(args: argparse.Namespace) -> list[Path]:
    return [args.file] if args.actions is None else [args.file, args.actions]


def _names(pipeline: Pipeline, rule: str | None) -> list[str]:
    if rule is None:
        return pipeline.query_names
    if rule not in pipeline.query_names:
        raise OptionError("--rule", rule, f"one of {', '.join(pipeline.query_names)}")
    return [rule]


def _stop_at_end_of_input(driver: PipelineDriver) -> None:
    sys.stdin.buffer.read()
    driver.stop()


def _print_figures(figures: Sequence[QueryFigures], as_json: bool) -> None:
    if as_json:
        print(json.dumps({"queries": [query.to_json() for query in figures]}), flush=True)
    else:
        print(summary_table(figures), flush=True)


def _preview_text(preview: Preview) -> str:
    lines = [
        f"{preview.name} ({preview.engine})",
        *(f"    {part}: {engine}, {why}" for part, engine, why in preview.parts),
        f"  from    {preview.source}",
        f"  to      {preview.target} ({preview.guarantee})",
        f"  columns {', '.join(f'{name} {kind}' for name, kind in preview.columns)}",
        f"  of {preview.messages:,} messages: {preview.rows_count:,} rows, {preview.failed:,} failed, "
        f"{preview.refused:,} without a required column",
        *(f"  table   {change}" for change in preview.changes),
        *([f"  table   {preview.table_fault}"] if preview.table_fault else []),
        *(f"  {json.dumps(row, default=_plain, ensure_ascii=False)}" for row in preview.rows),
        *(f"  failed: {reason}" for reason in preview.reasons),
    ]
    return "\n".join(lines)


def _plain(value: object) -> str:
    """What JSON has no form for: bytes as text where they are text, else in hexadecimal."""
    if not isinstance(value, bytes | bytearray):
        return str(value)
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.hex()


def _status_table(queries: Sequence[dict[str, Any]]) -> str:
    head = ("query", "state", "batches", "read", "written", "failed", "late", "letters", "lag", "restarts", "to")
    keys = ("batches", "rows_read", "rows_written", "rows_failed", "rows_late", "dead_letters", "lag", "restarts")
    rows = [
        (
            str(query["name"]),
            str(query["state"]),
            *("?" if query[key] is None else f"{query[key]:,}" for key in keys),
            f"{query['target']} ({query['guarantee']})",
        )
        for query in queries
    ]
    errors = [f"{query['name']}: {query['last_error']}" for query in queries if query["last_error"]]
    return "\n".join([table_text([head, *rows]), *errors])


def _time(microseconds: int) -> str:
    return datetime.fromtimestamp(microseconds / 1_000_000, UTC).isoformat(timespec="milliseconds")
