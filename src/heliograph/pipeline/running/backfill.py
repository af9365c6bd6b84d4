"""Plans backfills: which part of the past a rule still has to be run over, so that nothing is left out or repeated.

A query remembers in its checkpoint where it began. What was stored before is the backfill's, up to exactly there: a
border of positions in the streams, so that it does not matter what time the clocks of shards and nodes say. A backfill
is a query of its own with a checkpoint of its own, named for its span of time: called again it goes on, and once done
it does nothing. A query that never ran is given its beginning by its first backfill, and goes on from there. Where that
backfill has a time to end, or the query had one to begin, the border is that time by the clocks of all nodes:
what a late clock stores afterwards with a time before it comes only when the same backfill is called again.
"""

import json
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from heliograph.pipeline.datasource.offsets import Offset, offset_time
from heliograph.pipeline.datasource.options import EARLIEST
from heliograph.pipeline.datasource.read_bounds import parse_bound, parse_zone
from heliograph.pipeline.errors import BackfillError, CheckpointInUseError, OptionError
from heliograph.pipeline.files.definition import Pipeline, RuleJob
from heliograph.pipeline.running.checkpoint_lock import checkpoint_lock
from heliograph.pipeline.running.identity import Identity, new_identity, query_directory, read_identity, write_identity
from heliograph.pipeline.running.queries import RunSettings, Span
from heliograph.pipeline.running.starts import end_of_stored, newest
from heliograph.pipeline.running.views import source_options

#: The directory below that of all checkpoints where backfills have theirs. No query can have such a name.
BACKFILLS: Final = "@backfill"

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def plan_backfill(
    pipeline: Pipeline, names: Sequence[str], settings: RunSettings, since: str, until: str | None
) -> dict[str, Span]:
    """The span of each query's backfill.

    Args:
        names: The queries; jobs in Spark SQL are left out where several are named.
        since: ``earliest``, or a time.
        until: The time to stop before; None goes up to where the query began, or to what is stored now.
    """
    begin = _time("--from", since, settings)
    end = _time("--to", until, settings) if until is not None else None
    rules = [name for name in names if _is_stateless(pipeline, name)]
    if not rules:
        raise BackfillError(
            f"{', '.join(names)} cannot be backfilled: only rules without deduplicate can, since the result of the "
            "others depends on the rows before and after. Run the job again instead, with another version"
        )
    with _beginning(pipeline, rules, settings):
        planned = {name: _span(pipeline, pipeline.rules[name], settings, begin, end) for name in rules}
        # Behind all that is refused: a beginning that is written stays.
        for name, (_, query) in planned.items():
            place = query_directory(settings.checkpoint, pipeline.rules[name])
            if read_identity(place) is None:
                write_identity(place, query)
    return {name: span for name, (span, _) in planned.items()}


@contextmanager
def _beginning(pipeline: Pipeline, rules: Sequence[str], settings: RunSettings) -> Iterator[None]:
    """Keep drivers away while queries that never ran are given their beginning, which a driver would give them too."""
    new = [name for name in rules if read_identity(query_directory(settings.checkpoint, pipeline.rules[name])) is None]
    if not new:
        yield
        return
    try:
        with checkpoint_lock(settings.checkpoint):
            yield
    except CheckpointInUseError as error:
        raise BackfillError(
            f"{', '.join(new)} did not begin yet, and a driver that runs may begin it at any moment ({error}). Run the "
            "backfill when it has begun, or while no driver runs"
        ) from error


def spans_of(directory: Path) -> list[tuple[int, int]]:
    """The spans of time that the backfills in a directory cover, in microseconds since the epoch."""
    names = [place.name.split("-") for place in directory.iterdir()] if directory.is_dir() else []
    return sorted((int(parts[0]), int(parts[1])) for parts in names if len(parts) == 2 and all(map(str.isdigit, parts)))


def _is_stateless(pipeline: Pipeline, name: str) -> bool:
    return name in pipeline.rules and not pipeline.rules[name].deduplicate


def _span(
    pipeline: Pipeline, rule: RuleJob, settings: RunSettings, begin: int, end: int | None
) -> tuple[Span, Identity]:
    place = query_directory(settings.checkpoint, rule)
    directory = settings.checkpoint / BACKFILLS / place.name
    known = spans_of(directory)
    query = read_identity(place) or new_identity({rule.name: _first_start(pipeline, rule, settings, end)})
    began, border = _border_of(query.starts[rule.name])
    end = began if end is None else end
    if end == 0:
        raise BackfillError(f"{rule.name} began at the earliest message, so nothing is left to backfill")
    if began < end:
        raise BackfillError(
            f"{rule.name} itself began at {_shown(began)}, so a backfill until {_shown(end)} would repeat messages: "
            "leave --to out to end where it began"
        )
    if begin >= end:
        raise BackfillError(f"the backfill of {rule.name} would be empty: from {_shown(begin)} until {_shown(end)}")
    for one, other in known:
        if (one, other) != (begin, end) and begin < other and one < end:
            rest = f". For what is left, give --from {_option(other)}" if one <= begin and other < end else ""
            raise BackfillError(
                f"{rule.name} was backfilled from {_shown(one)} until {_shown(other)} already, which a backfill from "
                f"{_shown(begin)} until {_shown(end)} would repeat{rest}; where that one was interrupted, the same "
                f"--from and --to {_option(other)} go on with it"
            )
    owner = str(uuid.uuid5(uuid.UUID(query.id), f"backfill:{begin}:{end}:{rule.name}"))
    start = EARLIEST if begin == 0 else str(begin)
    return Span(start, end, border, directory / f"{begin}-{end}", owner, query.id), query


def _first_start(pipeline: Pipeline, rule: RuleJob, settings: RunSettings, end: int | None) -> str:
    """Where a query that never ran is to begin: where its first backfill ends, or behind what is stored now."""
    last = newest(source_options(pipeline, rule.name, settings.source))
    if last is None:
        raise BackfillError(f"nothing is stored that {rule.name} could be backfilled with")
    if end is None:
        return json.dumps(end_of_stored(pipeline, rule.name, settings.source))
    if end > last + 1:
        raise BackfillError(
            f"--to is {_shown(end)}, but the newest message was stored at {_shown(last)}, and what comes until then "
            f"would wait for another backfill: leave --to out, and {rule.name} goes on where the backfill ends"
        )
    return str(end)


def _border_of(started: str) -> tuple[int, Offset | None]:
    """The time before which a query leaves messages to backfills, 0 for none, and the offset at which it began."""
    if not started.startswith("{"):
        return 0 if started == EARLIEST else int(started), None
    offset: Offset = json.loads(started)
    if "start" in offset:  # nothing before that time is the query's, whatever the positions
        return offset["start"], None
    newest_time = offset_time(offset)
    return newest_time + 1 if newest_time else 0, offset


def _time(option: str, text: str, settings: RunSettings) -> int:
    time = parse_bound(option, text, parse_zone(settings.source.get("timeZone", "UTC")))
    if time == EARLIEST and option == "--from":
        return 0
    if not isinstance(time, int):
        earliest = "earliest, or " if option == "--from" else ""
        raise OptionError(option, text, f"{earliest}a time such as 2026-01-31T00:00:00Z")
    return time


def _shown(microseconds: int) -> str:
    if microseconds == 0:
        return "the earliest message"
    return _option(microseconds)


def _option(microseconds: int) -> str:
    return (_EPOCH + timedelta(microseconds=microseconds)).isoformat(timespec="microseconds")
