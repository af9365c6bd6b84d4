"""What a database holds, read from its own records: shards, generations and their learned topic structures.

The writer and every reader have a catalog of their own; `refresh` takes in what was written since. Messages are not
its business.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from heliograph.storage import keys
from heliograph.storage.block import LAYOUT, LAYOUT_VERSION
from heliograph.storage.engine import Rdict, records
from heliograph.storage.errors import StorageDamagedError, UnknownLayoutError, UnknownStreamError
from heliograph.storage.interface import GenerationInfo, Rank, Stream, StreamId
from heliograph.storage.topic_filter import TopicFilter
from heliograph.storage.topic_structure import TopicStructure

_NUMBER_MAX: Final = 0xFFFF_FFFF


class Generation:
    """One generation of one shard: its record and its learned structure."""

    def __init__(self, info: GenerationInfo, thresholds: Sequence[int]) -> None:
        self.info = info
        self.thresholds = tuple(thresholds)
        self.structure = TopicStructure(thresholds)
        self.complete = False  # sealed, and read since then: nothing can come

    def overlaps(self, start: int | None, end: int | None) -> bool:
        """Whether anything stored in [start, end) can be in it."""
        until = self.info.until
        return (end is None or self.info.since < end) and (start is None or until is None or start < until)

    def __repr__(self) -> str:
        return f"Generation({self.info}, {self.structure})"


class Catalog:
    """The generations of one open database. Owned by whoever opened the database, lives as long.

    Args:
        name: The database's name.
        path: Its directory, for errors.
    """

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self.path = path
        self.n_shards = 0
        self._generations: dict[tuple[int, int], Generation] = {}

    def refresh(self, database: Rdict) -> None:
        """Take in what was written since the last call; also the first read.

        Raises:
            UnknownLayoutError: The database or a generation has a format that this version does not know.
            StorageDamagedError: Its records contradict one another.
            Exception: RocksDB's own.
        """
        if not self.n_shards:
            self._read_meta(database)
        try:
            for shard in range(self.n_shards):
                first, behind = keys.generation(shard, 0), keys.generation(shard, _NUMBER_MAX)
                for key, value in records(database, first, behind):
                    self._read_generation(key, value)
            for (shard, number), generation in self._generations.items():
                if not generation.complete:
                    _read_structure(database, shard, number, generation.structure)
                    generation.complete = generation.info.until is not None
        except (ValueError, KeyError, TypeError) as error:
            raise StorageDamagedError(
                f"the records of its topics or generations are damaged: {error}", database=self.name, path=self.path
            ) from error

    def generations(self) -> list[Generation]:
        """All generations, by shard and number."""
        return [self._generations[place] for place in sorted(self._generations)]

    def current(self, shard: int) -> Generation:
        """The generation that a shard writes."""
        return self._generations[max(place for place in self._generations if place[0] == shard)]

    def generation_of(self, stream: StreamId) -> Generation:
        """The generation of a stream that exists.

        Raises:
            UnknownStreamError: There is no such stream.
        """
        generation = self._generations.get((stream.shard, stream.generation))
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
        """Every stream of the database."""
        for (shard, number), generation in sorted(self._generations.items()):
            for stream in range(1, generation.structure.stream_count + 1):
                yield StreamId(self.name, shard, number, stream)

    def _read_meta(self, database: Rdict) -> None:
        value = database.get(keys.META)
        meta = {} if value is None else json.loads(value)
        if meta.get("format") != keys.FORMAT:
            raise UnknownLayoutError(
                f"its key format is {meta.get('format')!r}, and this version knows {keys.FORMAT}",
                database=self.name,
                path=self.path,
            )
        self.n_shards = int(meta["n_shards"])

    def _read_generation(self, key: bytes, value: bytes) -> None:
        shard, number = keys.shard_and_generation(key)
        record = json.loads(value)
        layout, version = record["layout"], record["version"]
        if (layout, version) != (LAYOUT, LAYOUT_VERSION):
            raise UnknownLayoutError(
                f"generation {number} has layout {layout!r} version {version}; "
                f"this version knows {LAYOUT!r} version {LAYOUT_VERSION}",
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


def generation_record(since: int, until: int | None, thresholds: Sequence[int]) -> bytes:
    """What is stored of a generation."""
    record = {
        "layout": LAYOUT,
        "version": LAYOUT_VERSION,
        "since": since,
        "until": until,
        "wildcard_thresholds": list(thresholds),
    }
    return json.dumps(record).encode()


def meta_record(name: str, n_shards: int, site: str) -> bytes:
    """What is stored of a database."""
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
