"""What a database holds, read from its own records: shards, generations and their learned topic structures.

The writer and every reader have a catalog of their own; `refresh` takes in what was written since. Messages are not
its business.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from heliograph.storage.columnar import keys
from heliograph.storage.columnar.block import LAYOUT, LAYOUT_VERSION, LAYOUT_VERSIONS
from heliograph.storage.engine import Rdict, records
from heliograph.storage.errors import (
    DroppedGenerationError,
    StorageDamagedError,
    UnknownLayoutError,
    UnknownStreamError,
)
from heliograph.storage.interface import GenerationInfo, Position, Rank, Stream, StreamId
from heliograph.storage.topic_filter import TopicFilter
from heliograph.storage.topic_structure import OWN_STREAMS, TopicStructure

_NUMBER_MAX: Final = 0xFFFF_FFFF


class Generation:
    def __init__(self, info: GenerationInfo, thresholds: Sequence[int]) -> None:
        self.info = info
        self.thresholds = tuple(thresholds)
        self.structure = TopicStructure(thresholds, own_streams=max(OWN_STREAMS, self.thresholds[-1]))
        self.complete = False  # sealed, and read since then: nothing can come
        self.is_leaving = False  # it is being offloaded, as its blocks were when that began

    def overlaps(self, start: int | None, end: int | None) -> bool:
        """Whether anything stored in [start, end) can be in it."""
        until = self.info.until
        return (end is None or self.info.since < end) and (start is None or until is None or start < until)

    def __repr__(self) -> str:
        return f"Generation({self.info}, {self.structure})"


class DroppedGeneration:
    """What is kept of a dropped generation, so that a reader learns what it missed; `record` is parsed on request."""

    def __init__(self, record: bytes) -> None:
        self._record = record

    def lost_rows(self, stream: int, position: Position) -> int | None:
        """At most how many rows of a stream a reader at a position missed: 0 for none, None if unknown."""
        record = json.loads(self._record)
        entry = record["streams"].get(str(stream))
        if entry is None:
            return 0 if record["complete"] else None
        time, sequence, row, rows = entry
        return 0 if position >= Position(time, sequence, row) else int(rows)


_FORGOTTEN: Final = DroppedGeneration(b'{"streams": {}, "complete": false}')


class Catalog:
    """The generations of one open database. Owned by the database, lives as long."""

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self.path = path
        self.n_shards = 0
        self.site = ""
        self._generations: dict[tuple[int, int], Generation] = {}
        self._dropped: dict[tuple[int, int], DroppedGeneration] = {}

    def refresh(self, database: Rdict) -> None:
        """Take in what was written since the last call; also the first read.

        Raises:
            UnknownLayoutError: The database or a generation has a format that this version does not know.
            StorageDamagedError: Its records contradict one another.
        """
        if not self.n_shards:
            self._read_meta(database)
        try:
            found: set[tuple[int, int]] = set()
            dropped: dict[tuple[int, int], DroppedGeneration] = {}
            for shard in range(self.n_shards):
                first, behind = keys.generation(shard, 0), keys.generation(shard, _NUMBER_MAX)
                for key, value in records(database, first, behind):
                    self._read_generation(key, value)
                    found.add(keys.shard_and_generation(key))
                first, behind = keys.dropped_generation(shard, 0), keys.dropped_generation(shard, _NUMBER_MAX)
                if not any(at == shard for at, _ in self._generations):
                    raise ValueError(f"shard {shard} has no generation")
                for key, value in records(database, first, behind):
                    dropped[keys.shard_and_generation(key)] = DroppedGeneration(value)
            self._dropped = dropped
            for place in [place for place in self._generations if place not in found]:
                del self._generations[place]
            for (shard, number), generation in self._generations.items():
                if not generation.complete:
                    _read_structure(database, shard, number, generation.structure)
                    generation.complete = generation.info.until is not None
        except (ValueError, KeyError, TypeError) as error:
            raise StorageDamagedError(
                f"the records of its topics or generations are damaged: {error}", database=self.name, path=self.path
            ) from error

    def generations(self) -> list[Generation]:
        return [self._generations[place] for place in sorted(self._generations)]

    def generation(self, shard: int, number: int) -> Generation:
        return self._generations[shard, number]

    def current(self, shard: int) -> Generation:
        return self._generations[max(place for place in self._generations if place[0] == shard)]

    def generation_of(self, stream: StreamId) -> Generation:
        """The generation of a stream that exists."""
        generation = self._generations.get((stream.shard, stream.generation))
        if self.dropped(stream) is not None:
            raise DroppedGenerationError(
                f"generation {stream.generation} was dropped, and stream {str(stream)!r} with it",
                database=self.name,
                stream=str(stream),
                path=self.path,
            )
        if stream.database != self.name or generation is None or generation.structure.topics_of(stream.number) is None:
            raise UnknownStreamError(
                f"there is no stream {str(stream)!r}", database=self.name, stream=str(stream), path=self.path
            )
        return generation

    def streams(self, filters: Sequence[TopicFilter], start: int | None, end: int | None) -> Iterator[Stream]:
        """The streams in which one of the filters can find messages stored in [start, end)."""
        for (shard, number), generation in sorted(self._generations.items()):
            if not generation.overlaps(start, end):
                continue
            matches = {match.stream: match for one in filters for match in generation.structure.streams(one)}
            for stream in sorted(matches):
                sealed = generation.info.until is not None
                stream_id = StreamId(self.name, shard, number, stream)
                yield Stream(stream_id, Rank(shard, number), matches[stream].topics, sealed)

    def all_streams(self) -> Iterator[StreamId]:
        for generation in self.generations():
            yield from self.streams_in(generation)

    def streams_of(self, number: int) -> Iterator[StreamId]:
        """The streams of the generations of this number, of all shards; one after the other, for there may be many."""
        for generation in self.generations():
            if generation.info.number == number:
                yield from self.streams_in(generation)

    def streams_in(self, generation: Generation) -> Iterator[StreamId]:
        info = generation.info
        for stream in range(1, generation.structure.stream_count + 1):
            yield StreamId(self.name, info.shard, info.number, stream)

    def dropped(self, stream: StreamId) -> "DroppedGeneration | None":
        place = stream.shard, stream.generation
        if stream.database != self.name or stream.shard >= self.n_shards or place in self._generations:
            return None
        if not 0 < stream.generation < self.current(stream.shard).info.number:
            return None
        return self._dropped.get(place, _FORGOTTEN)

    def dropped_numbers(self) -> list[int]:
        """The dropped generations that are remembered, oldest first."""
        return sorted({number for _, number in self._dropped})

    def _read_meta(self, database: Rdict) -> None:
        value = database.get(keys.META)
        if value is None:
            raise StorageDamagedError("the record that says what it is, is missing", database=self.name, path=self.path)
        meta = json.loads(value)
        if meta.get("format") != keys.FORMAT:
            raise UnknownLayoutError(
                f"its key format is {meta.get('format')!r}, and this version knows {keys.FORMAT}",
                database=self.name,
                path=self.path,
            )
        self.n_shards = int(meta["n_shards"])
        self.site = str(meta["site"])

    def _read_generation(self, key: bytes, value: bytes) -> None:
        shard, number = keys.shard_and_generation(key)
        record = json.loads(value)
        layout, version = record["layout"], record["version"]
        if layout != LAYOUT or version not in LAYOUT_VERSIONS:
            raise UnknownLayoutError(
                f"generation {number} has layout {layout!r} version {version}; "
                f"this version knows {LAYOUT!r} versions {', '.join(map(str, LAYOUT_VERSIONS[:-1]))} and "
                f"{LAYOUT_VERSIONS[-1]}",
                database=self.name,
                shard=shard,
                path=self.path,
            )
        info = GenerationInfo(shard, number, layout, version, record["since"], record["until"])
        known = self._generations.get((shard, number))
        if known is None:
            self._generations[shard, number] = Generation(info, record["wildcard_thresholds"])
        else:
            known.info = info


def generation_record(since: int, until: int | None, thresholds: Sequence[int], version: int = LAYOUT_VERSION) -> bytes:
    record = {
        "layout": LAYOUT,
        "version": version,
        "since": since,
        "until": until,
        "wildcard_thresholds": list(thresholds),
    }
    return json.dumps(record).encode()


def dropped_record(last: Mapping[int, tuple[Position, int]], complete: bool) -> bytes:
    """The record of a dropped generation.

    Args:
        last: For streams that had something, their last position, and how many rows they had.
        complete: Whether these are all such streams.
    """
    streams = {stream: [*position[:3], rows] for stream, (position, rows) in last.items()}
    return json.dumps({"streams": streams, "complete": complete}).encode()


def meta_record(name: str, n_shards: int, site: str) -> bytes:
    return json.dumps({"format": keys.FORMAT, "database": name, "n_shards": n_shards, "site": site}).encode()


def _read_structure(database: Rdict, shard: int, generation: int, structure: TopicStructure) -> None:
    first = keys.topic_level(shard, generation, structure.node_count)
    for key, value in records(database, first, keys.topic_level(shard, generation, _NUMBER_MAX)):
        _, _, number = keys.numbered(key)
        structure.load_node(number, int.from_bytes(value[:4], "big"), value[4:].decode())
    first = keys.stream(shard, generation, structure.stream_count + 1)
    for key, value in records(database, first, keys.stream(shard, generation, _NUMBER_MAX)):
        _, _, number = keys.numbered(key)
        structure.load_stream(number, int.from_bytes(value, "big"))
