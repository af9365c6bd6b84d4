"""Checks a whole database and names everything that is not as it was written."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from heliograph.storage.columnar import keys
from heliograph.storage.columnar.catalog import Catalog, Generation
from heliograph.storage.columnar.salvage import Damage, is_damage, place, readable_blocks
from heliograph.storage.engine import Rdict, records
from heliograph.storage.interface import StreamId
from heliograph.storage.repair.findings import LISTED_MAX, Findings
from heliograph.storage.repair.missing_records import streams_with_blocks

_NUMBER_MAX: Final = 0xFFFF_FFFF


@dataclass(slots=True)
class CheckReport(Findings):
    """What a check found.

    Attributes:
        blocks: In how many blocks the messages are that can be read.
        damages: What cannot be read of the streams, at most a thousand; `damage_count` counts all.
    """

    messages: int = 0
    blocks: int = 0
    damages: list[Damage] = field(default_factory=list)
    damage_count: int = 0

    @property
    def is_damaged(self) -> bool:
        return bool(self.damage_count or self.problem_count)

    def add_damage(self, damage: Damage) -> None:
        self.damage_count += 1
        if len(self.damages) < LISTED_MAX:
            self.damages.append(damage)

    def to_json(self) -> dict[str, object]:
        return {
            "database": self.database,
            "damaged": self.is_damaged,
            "messages": self.messages,
            "blocks": self.blocks,
            "damages": [damage.to_json() for damage in self.damages],
            "damage_count": self.damage_count,
            "problems": self.problems,
            "problem_count": self.problem_count,
        }


def check_database(database: Rdict, catalog: Catalog) -> CheckReport:
    """Read every block and every index entry of a database."""
    report = CheckReport(catalog.name)
    for generation in catalog.generations():
        for stream in catalog.streams_in(generation):
            _check_stream(database, stream, report)
        _check_strays(database, generation, report)
    known = {(generation.info.shard, generation.info.number) for generation in catalog.generations()}
    for shard, number in sorted(streams_with_blocks(database).keys() - known):
        report.add_problem(f"shard {shard}, generation {number} has blocks, and no record")
    return report


def _check_stream(database: Rdict, stream: StreamId, report: CheckReport) -> None:
    places: set[int] = set()
    damaged_spans: list[Damage] = []
    for found in readable_blocks(database, stream):
        if isinstance(found, Damage):
            report.add_damage(found)
            damaged_spans.append(found)
            continue
        places.add(place(*keys.time_and_sequence(found.key)))
        report.blocks += 1
        report.messages += found.header.rows
    dangling = 0
    try:
        for time, sequence in _indexed(database, stream):
            if place(time, sequence) not in places and not any(d.since <= time <= d.until for d in damaged_spans):
                dangling += 1
    except Exception as error:
        if not is_damage(error):
            raise
        report.add_problem(f"the topic index of stream {stream} cannot be read: {error}")
    if dangling:
        report.add_problem(f"{dangling} entries of the topic index of stream {stream} name blocks that are not there")


def _indexed(database: Rdict, stream: StreamId) -> Iterator[tuple[int, int]]:
    """Time and sequence of the blocks that the topic index of a stream names, as often as it names them."""
    lower = keys.index_prefix(*stream[1:], b"")
    upper = keys.index_prefix(stream.shard, stream.generation, stream.number + 1, b"")
    for key, _ in records(database, lower, upper):
        yield keys.time_and_sequence(key)


def _check_strays(database: Rdict, generation: Generation, report: CheckReport) -> None:
    """Blocks behind the last stream of a generation belong to a stream that can no longer be found."""
    info = generation.info
    lower = keys.block_prefix(info.shard, info.number, generation.structure.stream_count + 1)
    upper = keys.block_prefix(info.shard, info.number, _NUMBER_MAX)
    try:
        if next(records(database, lower, upper), None) is not None:
            report.add_problem(f"shard {info.shard}, generation {info.number} has blocks of streams without a record")
    except Exception as error:
        if not is_damage(error):
            raise
        report.add_problem(f"shard {info.shard}, generation {info.number}, behind the last stream: {error}")
