"""What is in a database, in figures and as text for people: totals, generations, and the learned topic structure."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from heliograph.storage.columnar.catalog import Catalog
from heliograph.storage.columnar.extent import extent_until, newest
from heliograph.storage.columnar.offloaded import offload_record
from heliograph.storage.engine import Rdict
from heliograph.storage.interface import END, StreamId


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over some streams; `message_bytes` are those of topics and payloads, `last` the newest commit (µs)."""

    streams: int
    messages: int
    message_bytes: int
    last: int | None


def totals_of(database: Rdict, streams: Sequence[StreamId]) -> Totals:
    """The sums over some streams; two seeks for each."""
    extents = [extent_until(database, stream, END) for stream in streams]
    times = [last.time for stream in streams if (last := newest(database, stream)) is not None]
    messages = sum(one.rows for one in extents)
    message_bytes = sum(one.message_bytes for one in extents)
    return Totals(len(streams), messages, message_bytes, max(times, default=None))


def database_facts(database: Rdict, catalog: Catalog) -> dict[str, object]:
    """Everything about a database that is quickly found, ready for JSON."""
    generations = []
    for generation in catalog.generations():
        info = generation.info
        totals = totals_of(database, list(catalog.streams_in(generation)))
        generations.append(
            {
                "shard": info.shard,
                "generation": info.number,
                "layout": info.layout,
                "layout_version": info.layout_version,
                "since": info.since,
                "until": info.until,
                "wildcard_thresholds": list(generation.thresholds),
                "topic_levels": generation.structure.node_count - 1,
                **asdict(totals),
                "offloaded": offload_facts(database, info.shard, info.number),
            }
        )
    totals = totals_of(database, list(catalog.all_streams()))
    return {
        "database": catalog.name,
        "path": str(catalog.path),
        "shards": catalog.n_shards,
        **asdict(totals),
        "disk_bytes": disk_bytes(catalog.path),
        "generations": generations,
    }


def offload_facts(database: Rdict, shard: int, number: int) -> dict[str, object] | None:
    """Where the rows of a generation lie that are not here, ready for JSON; None where all are here."""
    record = offload_record(database, shard, number)
    if record is None:
        return None
    size = sum(file.size for file in record.files)
    return {"target": record.target, "state": str(record.state), "files": len(record.files), "bytes": size}


def disk_bytes(path: Path) -> int:
    total = 0
    for entry in path.iterdir():
        try:
            total += entry.stat().st_size
        except FileNotFoundError:  # RocksDB deletes files while they are being counted
            continue
    return total


def structure_facts(database: Rdict, catalog: Catalog, shard: int | None, generation: int | None) -> list[object]:
    """The learned topic structure: each stream with its topics and totals, by shard and generation; ready for JSON."""
    return [
        {
            "shard": one.info.shard,
            "generation": one.info.number,
            "wildcard_thresholds": list(one.thresholds),
            "topic_levels": one.structure.node_count - 1,
            "streams": [
                {
                    "stream": str(stream),
                    "topics": one.structure.topics_of(stream.number),
                    **_without_count(totals_of(database, [stream])),
                }
                for stream in catalog.streams_in(one)
            ],
        }
        for one in catalog.generations()
        if shard in (None, one.info.shard) and generation in (None, one.info.number)
    ]


def tree_lines(topics: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Topic structures, each with a remark, as the lines of a tree."""
    open_levels: list[str] = []
    for text, remark in sorted(topics, key=lambda pair: pair[0].split("/")):
        levels = text.split("/")
        shared = 0
        while shared < min(len(levels) - 1, len(open_levels)) and levels[shared] == open_levels[shared]:
            shared += 1
        for depth in range(shared, len(levels)):
            indent = "  " * depth
            is_last = depth == len(levels) - 1
            shown = levels[depth] or '""'
            yield f"{indent}{shown}  {remark}" if is_last else f"{indent}{shown}/"
        open_levels = levels[:-1]


def _without_count(totals: Totals) -> dict[str, int | None]:
    return {"messages": totals.messages, "message_bytes": totals.message_bytes, "last": totals.last}
