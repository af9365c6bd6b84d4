"""Walks the blocks of a stream past damage, and names the damage.

Two things can be damaged. A block whose own checksum does not match is one value among readable ones. A piece of a
RocksDB file that does not pass RocksDB's checksum takes every block in it away, and RocksDB ends a walk there without
saying where it would go on; the next readable place is found by galloping ahead in time and then halving the distance.
Blocks say how many rows precede them in their stream, so what is missing between two readable ones can be counted.

Works on any open database. `damage` reads for callers that skip damage, `repair.check` walks whole databases.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from heliograph.storage.columnar import keys
from heliograph.storage.columnar.block import BlockHeader, DamagedBlockError, read_header
from heliograph.storage.engine import Rdict, records
from heliograph.storage.errors import StorageDamagedError
from heliograph.storage.interface import SEQUENCE_MAX, TIME_MAX, StreamId

_SEQUENCE_BITS: Final = 16
_PLACE_BYTES: Final = 10
_KEY_BYTES: Final = 64  # so far keys are compared when a way around damage is looked for
PLACE_MAX: Final = TIME_MAX << _SEQUENCE_BITS | SEQUENCE_MAX


@dataclass(frozen=True, slots=True)
class Damage:
    """Something of a stream that cannot be read.

    Attributes:
        stream: Where.
        since: Nothing stored before this time (µs) is concerned.
        until: Nor anything stored after this time.
        messages: How many messages are lost; None where nothing readable follows that could tell.
        problem: What is wrong, in words.
    """

    stream: StreamId
    since: int
    until: int
    messages: int | None
    problem: str

    def to_json(self) -> dict[str, object]:
        return {
            "database": self.stream.database,
            "shard": self.stream.shard,
            "stream": str(self.stream),
            "since": self.since,
            "until": self.until,
            "messages": self.messages,
            "problem": self.problem,
        }


class Block(NamedTuple):
    """A block that is what was written."""

    key: bytes
    value: bytes
    header: BlockHeader


class _Unreadable(NamedTuple):
    """Between these two times nothing can be read."""

    since: int
    until: int
    problem: str


def place(time: int, sequence: int) -> int:
    """A block's time and sequence as one number, ordered as the keys are."""
    return time << _SEQUENCE_BITS | sequence


def place_parts(at: int) -> tuple[int, int]:
    """Time and sequence of a place."""
    return at >> _SEQUENCE_BITS, at & SEQUENCE_MAX


def is_damage(error: Exception) -> bool:
    """Whether an error means damaged data on disk."""
    if isinstance(error, StorageDamagedError | DamagedBlockError):
        return True
    text = str(error)
    return "Corruption" in text or "checksum" in text


def readable_blocks(database: Rdict, stream: StreamId, first: int = 0) -> Iterator[Block | Damage]:
    """Every block of a stream from a place on, that included, and in its order what is damaged between them."""
    rows = 0 if first == 0 else None  # how many rows there should be before the next block
    seen = 0
    waiting: list[Damage] = []
    for found in _records_and_gaps(database, keys.block_prefix(*stream[1:]), first, PLACE_MAX):
        damage, block = _looked_at(stream, found)
        if block is None:
            waiting += [] if damage is None else [damage]
            continue
        missing = None if rows is None else max(0, block.header.rows_before - rows)
        if waiting:
            yield from _counted(waiting, missing)
        elif missing:
            time, _ = keys.time_and_sequence(block.key)
            yield Damage(stream, seen, time, missing, f"{missing} messages are missing")
        waiting = []
        yield block
        seen, _ = keys.time_and_sequence(block.key)
        rows = block.header.rows_before + block.header.rows
    yield from waiting


def nearest_header(database: Rdict, stream: StreamId, at: int, limit: int) -> tuple[int, BlockHeader] | None:
    """The place and header of the readable block that is nearest to a place, on the way to `limit`, or None."""
    prefix = keys.block_prefix(*stream[1:])
    is_forward = at < limit
    while True:
        found = _nearest(database, prefix, at, limit)
        if found is None or (found > limit if is_forward else found < limit):
            return None
        key = prefix + found.to_bytes(_PLACE_BYTES, "big")
        try:
            return found, read_header(key, database.get(key) or b"")
        except Exception as error:
            if not is_damage(error):
                raise
        if found == limit:
            return None
        at = found + 1 if is_forward else found - 1


def _nearest(database: Rdict, prefix: bytes, at: int, limit: int) -> int | None:
    """The place of the nearest block that can be found on the way from a place to `limit`, or None."""
    probe = _probe(database, prefix, at < limit)
    try:
        return probe(at)
    except Exception as error:
        if not is_damage(error):
            raise
    found = beyond_damage(probe, at, limit)
    if at > limit:
        # Going back, RocksDB also stumbles at the first block behind damage, since it looks at what precedes it.
        ahead = _nearest(database, prefix, limit if found is None else found + 1, at)
        if ahead is not None and ahead <= at:
            return ahead
    return found


def _looked_at(stream: StreamId, found: "tuple[bytes, bytes] | _Unreadable") -> tuple[Damage | None, Block | None]:
    if isinstance(found, _Unreadable):
        return Damage(stream, found.since, found.until, None, found.problem), None
    key, value = found
    try:
        return None, Block(key, value, read_header(key, value))
    except DamagedBlockError as error:
        time, sequence = keys.time_and_sequence(key)
        return Damage(stream, time, time, None, f"{error} (part {sequence} of its commit)"), None


def _counted(damages: list[Damage], missing: int | None) -> Iterator[Damage]:
    """The same with the number of lost messages, which only their sum is known of."""
    for number, one in enumerate(damages, 1):
        messages = missing if number == len(damages) else 0 if missing is not None else None
        yield Damage(one.stream, one.since, one.until, messages, one.problem)


def _records_and_gaps(
    database: Rdict, prefix: bytes, first: int, last: int
) -> "Iterator[tuple[bytes, bytes] | _Unreadable]":
    upper = prefix + last.to_bytes(_PLACE_BYTES, "big") + b"\0"
    probe = _probe(database, prefix, True)
    at = first
    while at <= last:
        try:
            for record in records(database, prefix + at.to_bytes(_PLACE_BYTES, "big"), upper):
                yield record
                at = place(*keys.time_and_sequence(record[0])) + 1
            return
        except Exception as error:
            if not is_damage(error):
                raise
            problem = str(error)
        following = beyond_damage(probe, at, last)
        if following is not None and following > last:
            following = None
        yield _Unreadable(at >> _SEQUENCE_BITS, (last if following is None else following) >> _SEQUENCE_BITS, problem)
        if following is None:
            return
        at = following


Probe = Callable[[int], int | None]


def _probe(database: Rdict, prefix: bytes, forward: bool) -> Probe:
    """A function that gives the place of the first block from a place on (or the last up to it), or None."""

    def probe(at: int) -> int | None:
        walk = database.iter()
        key = prefix + at.to_bytes(_PLACE_BYTES, "big")
        if forward:
            walk.seek(key)
        else:
            walk.seek_for_prev(key)
        if not walk.valid():
            walk.status()
            return None
        found: bytes = walk.key()
        return place(*keys.time_and_sequence(found)) if found.startswith(prefix) else None

    return probe


def beyond_damage(probe: Probe, failed: int, limit: int) -> int | None:
    """The nearest readable place behind one that is not, on the way to `limit`, or None."""
    sign = 1 if limit > failed else -1
    distance = abs(limit - failed)
    step = 1 << _SEQUENCE_BITS
    while not (found := _tried(probe, failed + sign * min(step, distance)))[0]:
        if step >= distance:
            return None
        step *= 2
    near, far = step // 2 if step > 1 << _SEQUENCE_BITS else 0, min(step, distance)
    nearest = found[1]
    while far - near > 1:
        middle = (near + far) // 2
        readable, found_there = _tried(probe, failed + sign * middle)
        if readable:
            far, nearest = middle, found_there
        else:
            near = middle
    return nearest


def _tried(probe: Probe, at: int) -> tuple[bool, int | None]:
    try:
        return True, probe(at)
    except Exception as error:
        if not is_damage(error):
            raise
        return False, None


def readable_records(database: Rdict, tell: Callable[[bytes, str], None]) -> Iterator[tuple[bytes, bytes]]:
    """Every readable record of a database, in order; `tell` gets the key before each gap, and what is wrong there."""
    end = b"\xff" * _KEY_BYTES
    limit = int.from_bytes(end, "big")
    at = b""
    while True:
        try:
            for record in records(database, at, end):
                yield record
                at = record[0] + b"\0"
            return
        except Exception as error:
            if not is_damage(error):
                raise
            problem = str(error)
        following = beyond_damage(partial(_key_from, database), int.from_bytes(_padded(at), "big"), limit)
        tell(at, problem)
        if following is None or following >= limit:
            return
        at = max(at, following.to_bytes(_KEY_BYTES, "big").rstrip(b"\0"))


def _key_from(database: Rdict, at: int) -> int | None:
    walk = database.iter()
    walk.seek(at.to_bytes(_KEY_BYTES, "big"))
    if not walk.valid():
        walk.status()
        return None
    return int.from_bytes(_padded(walk.key()), "big")


def _padded(key: bytes) -> bytes:
    return key[:_KEY_BYTES].ljust(_KEY_BYTES, b"\0")
