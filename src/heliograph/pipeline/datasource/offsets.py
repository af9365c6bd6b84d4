"""Places in all streams, in the JSON form in which Spark keeps them in checkpoints and shows them in its progress.

    {"streams": {stream: position}, "start": µs, "lost": {"messages": n, "uncounted_streams": n},
     "behind": {"messages": n, "seconds": s}}

``start`` is there when the read began at a time; streams that are not listed begin there. ``lost`` is there when
messages were removed before they were read and the read went on without them: how many messages at most, and of how
many streams their number is unknown. ``behind`` is in the latest offset only: how far the query is
behind it. Spark has no place for metrics of a Python source in its progress.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from heliograph.pipeline.datasource.client import Positions
from heliograph.pipeline.errors import OptionError

Offset = dict[str, Any]

_VALID: Final = 'an offset as Spark shows it, such as {"streams": {"messages/0/1/1": "1767225600000000-0"}}'
_FIELDS: Final = {"streams", "start", "lost", "behind"}
_POSITION: Final = re.compile(r"([0-9]{1,20}-[0-9]{1,20}(-[0-9]{1,20})?)?")  # nothing is the beginning of a stream
_WHOLE_BLOCK: Final = 1 << 64
_EARLIEST: Final = "earliest"


def make_offset(positions: Positions, start: int | None, lost: Mapping[str, int] | None = None) -> Offset:
    """An offset of its parts. Spark compares offsets as text, so the order of the streams is always the same."""
    offset: Offset = {"streams": dict(sorted(positions.items()))}
    if start is not None:
        offset["start"] = start
    if lost:
        offset["lost"] = dict(lost)
    return offset


def initial_offset(start: str) -> Offset:
    """The offset at which a query begins: ``earliest``, microseconds since the epoch, or an offset, all as text."""
    if start.startswith("{"):
        offset: Offset = json.loads(start)
        return offset
    return {"streams": {}} if start == _EARLIEST else {"streams": {}, "start": int(start)}


def offset_positions(offset: Offset | None) -> dict[str, str]:
    """The positions in an offset that Spark reports in its progress; none for a query that has not begun."""
    return dict(offset["streams"]) if offset else {}


def position_order(position: str) -> tuple[int, ...]:
    """What positions of one stream are ordered by: commit time, sequence and row; a whole block comes last."""
    parts = tuple(int(part) for part in position.split("-")) if position else ()
    return parts if len(parts) != 2 else (*parts, _WHOLE_BLOCK)


def offset_time(offset: Offset) -> int:
    """The time of the newest message that an offset is behind, in microseconds since the epoch; 0 for none."""
    return max((position_order(position)[0] for position in offset["streams"].values() if position), default=0)


def latest_offset(positions: Positions, reached: Offset | None, messages: int) -> Offset:
    """The offset behind everything stored, with how far a query is behind it, before topics are matched."""
    latest = make_offset(positions, None)
    seconds = (offset_time(latest) - offset_time(reached)) / 1e6 if messages and reached is not None else 0.0
    latest["behind"] = {"messages": messages, "seconds": round(max(0.0, seconds), 3)}
    return latest


def more_lost(offset: Offset, dropped: Mapping[str, int | None]) -> dict[str, int]:
    """What an offset says is lost, and what was lost since: messages by stream, None if their number is unknown."""
    lost: dict[str, int] = dict(offset.get("lost") or {})
    messages = sum(count or 0 for count in dropped.values())
    uncounted = sum(count is None for count in dropped.values())
    for name, count in (("messages", messages), ("uncounted_streams", uncounted)):
        if count:
            lost[name] = lost.get(name, 0) + count
    return lost


def parse_offset(option: str, text: str) -> Offset:
    """An offset that a user gives."""
    try:
        offset = json.loads(text)
    except json.JSONDecodeError:
        raise OptionError(option, text, _VALID) from None
    streams = offset.get("streams") if isinstance(offset, dict) else None
    if not isinstance(streams, dict) or not all(map(_is_position, streams.values())):
        raise OptionError(option, text, _VALID)
    start = offset.get("start")
    if set(offset) - _FIELDS or not (start is None or type(start) is int):
        raise OptionError(option, text, _VALID)
    return make_offset(streams, start)


def _is_position(value: object) -> bool:
    return isinstance(value, str) and _POSITION.fullmatch(value) is not None
