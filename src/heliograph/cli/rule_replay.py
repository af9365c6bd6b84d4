"""`heliograph rule replay`: a rule run over the stored messages of a node, without doing anything with its rows."""

import argparse
import json
import logging
import signal
import sys
import time
from collections.abc import Mapping
from datetime import UTC
from pathlib import Path
from types import FrameType
from typing import Any, Final

import msgspec

from heliograph.cli.ctl.asking import asked, data_dir
from heliograph.cli.ctl.printing import text_of
from heliograph.cli.usage import UsageError
from heliograph.control.proto_v1.pipeline import PIPELINE_BACKFILL, BackfillWanted
from heliograph.control.proto_v1.replays import RULES_REPLAY_SETTINGS, ReplaySettingsWanted
from heliograph.control.proto_v1.storage import DS_READER
from heliograph.rpc.conversation import UnreachableError
from heliograph.rpc.methods import RpcError

_TOKEN: Final = "flight_token"
_NOW: Final = "now"
_EARLIEST: Final = "earliest"
_INTERRUPTED: Final = 130
_LISTS: Final = ("rows", "failures", "added", "gone", "changed")


def run_replay_command(args: argparse.Namespace) -> int:
    """Carry out what the options ask for; the exit code.

    Raises:
        UsageError: An option makes no sense, or the node cannot be asked.
    """
    # Imported here: it needs pyarrow, which the rest of the command does not.
    from heliograph.pipeline.errors import PipelineError
    from heliograph.pipeline.replay.running import run_replay

    if args.engine == "spark":
        logging.getLogger().setLevel(logging.CRITICAL)  # py4j logs Ctrl-C there, with its stack
    progress = _Progress()
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        request = _request(args)
        result = run_replay(request, progress.tell)
        progress.end()
        _print(args, result)
        return _start(args, progress.rule, request.since) if args.start else 0
    except PipelineError as error:
        progress.end()
        raise UsageError(f"[{error.code}] {error}") from None
    except (RpcError, UnreachableError) as error:
        raise UsageError(str(error)) from None
    except KeyboardInterrupt:
        progress.end()
        print("heliograph rule: the replay was cancelled", file=sys.stderr)
        return _INTERRUPTED


def _request(args: argparse.Namespace) -> Any:
    from heliograph.pipeline.replay.request import ReplayRequest

    is_sql = any(character.isspace() for character in args.rule.strip())
    with asked(args) as node:
        wanted = ReplaySettingsWanted([one for one in (args.rule, args.compare) if one])
        settings = node.ask(RULES_REPLAY_SETTINGS(wanted))
        reader = node.ask(DS_READER())
    if reader.pid is None:
        raise UsageError("the storage reader of the node does not run (durable_storage.flight.enable)")
    words = {
        "sql" if is_sql else "rule": args.rule.strip(),
        "compare": args.compare.strip(),
        "since": _time("--from", args.since),
        "until": _time("--to", args.until),
        "engine": args.engine,
        "rows_max": args.rows,
        "seconds_max": args.seconds,
        "endpoint": reader.bind,
        "token": _token(data_dir(args) / _TOKEN),
        "schemas": json.loads(settings.schemas),
    }
    return msgspec.convert({**msgspec.to_builtins(settings), **words}, ReplayRequest)


def _token(file: Path) -> str:
    try:
        return file.read_text("ascii").strip()
    except OSError:
        return ""


def _time(option: str, text: str) -> int:
    """Microseconds since the epoch; 0 for the earliest message."""
    from heliograph.pipeline.datasource.read_bounds import parse_bound

    if option == "--to" and text == _NOW:
        return time.time_ns() // 1000
    if option == "--from" and text == _EARLIEST:
        return 0
    found = parse_bound(option, text, UTC)
    if not isinstance(found, int):
        word = _EARLIEST if option == "--from" else _NOW
        raise UsageError(f"{option} is {text!r}; it must be {word}, or a time such as 2026-01-31T00:00")
    return found


class _Progress:
    """A line on a terminal that says how far a replay is; lives as long as it.

    Attributes:
        rule: What is replayed.
    """

    def __init__(self) -> None:
        self.rule: dict[str, Any] = {}
        self._is_shown = sys.stderr.isatty()
        self._width = 0

    def tell(self, report: Mapping[str, Any]) -> None:
        if "began" in report:
            self.rule = report["began"]["rule"]
        elif self._is_shown:
            progress = report["progress"]
            counts = [f"{progress[name]:,} {name}" for name in ("messages", "rows", "failures") if name in progress]
            self._show(", ".join([f"{progress['share']:.0%}", *counts]))

    def end(self) -> None:
        """Take the line away."""
        if self._width:
            self._show("")

    def _show(self, text: str) -> None:
        print(f"\r{text.ljust(self._width)}", end="\r" if not text else "", file=sys.stderr, flush=True)
        self._width = len(text)


def _print(args: argparse.Namespace, result: Mapping[str, Any]) -> None:
    if args.json:
        print(json.dumps(result, ensure_ascii=False), flush=True)
        return
    lists = {**result, **result.get("comparison", {})}
    shown = ("added", "gone", "changed") if "comparison" in result else ("rows",)
    for name in _LISTS:
        if name in shown or name == "failures":
            for example in lists[name]:
                print(_line(name, example))
    print(_summary(result))
    if "comparison" in result:
        compared = result["comparison"]
        counts = ", ".join(f"{compared[f'{name}_count']:,} {name}" for name in ("added", "gone", "changed", "equal"))
        print(f"compared: {counts}; the other rule gave {compared['compared_rows_count']:,} rows")
    for one in result["not_done"]:
        print(f"not done: {one['what']}")
    for note in result["notes"]:
        print(f"note: {note}")


def _line(kind: str, example: Mapping[str, Any]) -> str:
    sign = {"rows": "", "failures": "failed: ", "added": "+ ", "gone": "- ", "changed": "~ "}[kind]
    where = f"    # {text_of(example['topic'])}"
    if kind == "failures":
        return f"{sign}{text_of(' '.join(example['error'].split()))}{where}"
    before = f"{json.dumps(example['before'], ensure_ascii=False)} -> " if kind == "changed" else ""
    return f"{sign}{before}{json.dumps(example['row'], ensure_ascii=False)}{where}"


def _summary(result: Mapping[str, Any]) -> str:
    whole = "" if result["complete"] else "; its time was over before all were read (--seconds)"
    return (
        f"{result['messages']:,} messages, {result['rows_count']:,} rows, {result['failures_count']:,} failed, "
        f"{result['no_result_count']:,} gave none, in {result['seconds']:.1f} s "
        f"({result['messages_per_second']:,} messages/s, {result['rows_per_second']:,} rows/s){whole}"
    )


def _start(args: argparse.Namespace, rule: Mapping[str, Any], since: int) -> int:
    """Make the pipeline bring the rows of the stretch, and of what was stored since, to the rule's sink."""
    if rule["of"] != "pipeline":
        raise UsageError(
            f"{rule['name'] or 'this SQL'} is no rule of the pipeline, so it cannot be started from then on: a rule in "
            "the broker acts on messages when they are published"
        )
    with asked(args) as node:
        wanted = BackfillWanted(rule["name"], str(since) if since else _EARLIEST)
        done = node.ask(PIPELINE_BACKFILL(wanted))
    for line in done.lines:
        print(line)
    return 0


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
