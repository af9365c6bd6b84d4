"""Restores lost records of generations and topics from the blocks.

Every block has the topics of its messages, and its key says shard, generation and stream. So what is known of streams
without records is a structure that their topics match: names where all topics have the same, `+` where they differ.
That is enough for reading. Nothing is written to such a generation again: it is closed, and another one begins.

Works on a copy of the damaged database; `message_database` takes from it what can be read.
"""

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import Final

from heliograph.storage.columnar import keys
from heliograph.storage.columnar.block import ERASED, LAYOUT_VERSIONS, is_stub
from heliograph.storage.columnar.block_rows import read_rows
from heliograph.storage.columnar.catalog import Catalog, generation_record, meta_record
from heliograph.storage.columnar.salvage import Block, beyond_damage, is_damage, readable_blocks
from heliograph.storage.engine import Rdict, new_batch, records
from heliograph.storage.errors import StorageDamagedError
from heliograph.storage.interface import StreamId
from heliograph.storage.topic_structure import ANY, LEARNED_LENGTH_MAX, REST, ROOT

_THRESHOLDS: Final = (100, 10)  # as the configuration has it, which the next start compares
_NUMBER_MAX: Final = 0xFFFF_FFFF
_STREAM_BYTES: Final = 10  # shard, generation and number in a key
_LOST: Final = "$lost"  # above the streams that nothing is known about

_Levels = tuple[str, ...]


class Rebuild:
    """Mends the records of one copy of a database; used once.

    Args:
        site: The id of the node, if known; for a database that does not say what it is.
    """

    def __init__(self, rocks: Rdict, name: str, site: str) -> None:
        self._rocks = rocks
        self._name = name
        self._site = site
        self._batch = new_batch()

    def run(self) -> None:
        """Write records that every block can be found by.

        Raises:
            StorageDamagedError: There are no blocks.
        """
        now = time.time_ns() // 1000
        streams = streams_with_blocks(self._rocks)
        if not streams:
            raise StorageDamagedError(
                "nothing of it can be read; to begin an empty one, move its directory aside and mend it again",
                database=self._name,
            )
        places = sorted(_places(self._rocks, b"G") | set(streams))
        n_shards = self._check_meta(max(shard for shard, _ in places) + 1)
        self._write_generations(places, streams, n_shards, now)
        for place in places:
            self._write_structure(place, streams.get(place, ()))
        self._rocks.write(self._batch)

    def _check_meta(self, n_shards: int) -> int:
        """How many shards there are; written, where the record that says it is lost."""
        meta = self._readable(keys.META)
        if meta is not None:
            return int(json.loads(meta)["n_shards"])
        self._batch.put(keys.META, meta_record(self._name, n_shards, self._site))
        return n_shards

    def _write_generations(
        self,
        places: Sequence[tuple[int, int]],
        streams: Mapping[tuple[int, int], Sequence[int]],
        n_shards: int,
        now: int,
    ) -> None:
        """Close every generation, and begin one in all shards that is newer than any that there was."""
        newest = max(max(number for _, number in places) + 1, now // 1_000_000)
        for shard in range(n_shards):
            numbers = [number for at, number in places if at == shard]
            since = list(accumulate((self._since(shard, one, streams.get((shard, one), ())) for one in numbers), max))
            for number, (begin, end) in zip(numbers, pairwise([*since, now]), strict=True):
                is_offloaded = self._readable(keys.offloaded(shard, number)) is not None
                version = LAYOUT_VERSIONS[-1 if is_offloaded else -2]
                record = generation_record(begin, max(begin, end), _THRESHOLDS, version)
                self._batch.put(keys.generation(shard, number), record)
                self._batch.delete(keys.written(shard, number))
            self._batch.put(keys.generation(shard, newest), generation_record(now, None, _THRESHOLDS))
            self._batch.put(keys.last_commit(shard), now.to_bytes(8, "big"))

    def _since(self, shard: int, generation: int, numbers: Sequence[int]) -> int:
        """When a generation began: as its record says, or the time of its first block."""
        layout = self._readable(keys.generation(shard, generation))
        if layout is not None:
            return int(json.loads(layout)["since"])
        times = [
            keys.time_and_sequence(found.key)[0]
            for number in numbers
            for found in self._first_block(StreamId(self._name, shard, generation, number))
        ]
        return min(times, default=0)

    def _readable(self, key: bytes) -> bytes | None:
        """A record, None also where it cannot be read."""
        try:
            found: bytes | None = self._rocks.get(key)
        except Exception as error:
            if not is_damage(error):
                raise
            return None
        return found

    def _first_block(self, stream: StreamId) -> list[Block]:
        found = (one for one in readable_blocks(self._rocks, stream) if isinstance(one, Block))
        return [block for block in (next(found, None),) if block is not None]

    def _write_structure(self, place: tuple[int, int], numbers: Sequence[int]) -> None:
        recorded = self._recorded_structure(*place)
        for key_of in (keys.topic_level, keys.stream):
            self._batch.delete_range(key_of(*place, 0), key_of(*place, _NUMBER_MAX))
        derived: dict[int, _Levels] = {}
        for number in range(1, max([*numbers, *recorded], default=0) + 1):
            if number not in recorded:
                derived[number] = self._derived(StreamId(self._name, *place, number), number)
        nodes: dict[_Levels, int] = {(): ROOT}
        for number, levels in sorted({**settled(recorded, derived), **recorded}.items()):
            for depth in range(1, len(levels) + 1):
                if levels[:depth] not in nodes:
                    node = nodes[levels[:depth]] = len(nodes)
                    value = nodes[levels[: depth - 1]].to_bytes(4, "big") + levels[depth - 1].encode()
                    self._batch.put(keys.topic_level(*place, node), value)
            self._batch.put(keys.stream(*place, number), nodes[levels].to_bytes(4, "big"))

    def _recorded_structure(self, shard: int, generation: int) -> dict[int, _Levels]:
        nodes: dict[int, _Levels] = {ROOT: ()}
        first, behind = keys.topic_level(shard, generation, 0), keys.topic_level(shard, generation + 1, 0)
        for key, value in _readable(self._rocks, first, behind):
            above = nodes.get(int.from_bytes(value[:4], "big"))
            if above is not None:
                nodes[keys.numbered(key)[2]] = (*above, value[4:].decode())
        found: dict[int, _Levels] = {}
        for key, value in _readable(
            self._rocks, keys.stream(shard, generation, 0), keys.stream(shard, generation + 1, 0)
        ):
            levels = nodes.get(int.from_bytes(value, "big"))
            if levels:
                found[keys.numbered(key)[2]] = levels
        return found

    def _derived(self, stream: StreamId, number: int) -> _Levels:
        """A structure that all topics of a stream match."""
        levels: _Levels | None = None
        for found in readable_blocks(self._rocks, stream):
            if isinstance(found, Block) and not is_stub(found.value):
                for row in read_rows(found.key, found.value, 0, found.header.rows):
                    if row.qos != ERASED:
                        levels = _common(levels, row.topic)
        return (_LOST, str(number)) if levels is None else levels


def has_strays(rocks: Rdict, catalog: Catalog) -> bool:
    """Whether there are blocks of streams that a catalog does not know."""
    known = {(one.info.shard, one.info.number): one.structure.stream_count for one in catalog.generations()}
    return any(max(numbers) > known.get(place, 0) for place, numbers in streams_with_blocks(rocks).items())


def streams_with_blocks(rocks: Rdict) -> dict[tuple[int, int], list[int]]:
    """The numbers of streams that have blocks, by shard and generation; without generations that were dropped."""
    dropped = _places(rocks, b"D") - _places(rocks, b"G")
    found: dict[tuple[int, int], list[int]] = {}
    for shard, generation, number in _walk_streams(rocks):
        if (shard, generation) not in dropped:
            found.setdefault((shard, generation), []).append(number)
    return found


def _walk_streams(rocks: Rdict) -> Iterator[tuple[int, int, int]]:
    at, limit = 0, (1 << 8 * _STREAM_BYTES) - 1
    next_stream = partial(_next_stream, rocks)
    while at <= limit:
        try:
            following = next_stream(at)
        except Exception as error:
            if not is_damage(error):
                raise
            following = beyond_damage(next_stream, at, limit)
        if following is None or following > limit:
            return
        yield keys.stream_of_block(b"B" + following.to_bytes(_STREAM_BYTES, "big"))
        at = following + 1


def _next_stream(rocks: Rdict, at: int) -> int | None:
    walk = rocks.iter()
    walk.seek(b"B" + at.to_bytes(_STREAM_BYTES, "big"))
    if not walk.valid():
        walk.status()
        return None
    key: bytes = walk.key()
    return int.from_bytes(key[1 : 1 + _STREAM_BYTES], "big") if key[:1] == b"B" else None


def _places(rocks: Rdict, kind: bytes) -> set[tuple[int, int]]:
    """Shard and number of the generations that have a record of a kind."""
    return {keys.shard_and_generation(key) for key, _ in _readable(rocks, kind, bytes([kind[0] + 1]))}


def _readable(rocks: Rdict, lower: bytes, upper: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Records up to the first that cannot be read."""
    try:
        yield from records(rocks, lower, upper)
    except Exception as error:
        if not is_damage(error):
            raise


def _common(levels: _Levels | None, topic: str) -> _Levels:
    named = tuple(topic.split("/"))
    if levels is None:
        return named if len(topic) <= LEARNED_LENGTH_MAX else (REST,)
    if len(levels) != len(named) or len(topic) > LEARNED_LENGTH_MAX:
        return (REST,)
    return tuple(one if one == other else ANY for one, other in zip(levels, named, strict=True))


def settled(recorded: Mapping[int, _Levels], derived: Mapping[int, _Levels]) -> dict[int, _Levels]:
    """Derived structures as they can stand in one trie: no name stands beside a `+` that it may have belonged to.

    A filter that names a level looks below that name, or else below `+`, never below both.
    """
    found = dict(derived)
    for depth in range(max((len(levels) for levels in derived.values()), default=0)):
        everything = Counter([*recorded.values(), *found.values()])
        names = {levels[: depth + 1] for levels in recorded.values() if len(levels) > depth}
        varying = {levels[:depth] for levels in everything if len(levels) > depth and levels[depth] == ANY}
        doubtful = [
            number
            for number, levels in found.items()
            if len(levels) > depth and levels[:depth] in varying and levels != (REST,)
        ]
        wider = {number: (*found[number][:depth], ANY, *found[number][depth + 1 :]) for number in doubtful}
        everything.update(levels for number, levels in wider.items() if levels != found[number])
        # Two streams never have the same structure: where they would, the level was a name.
        names |= {found[number][: depth + 1] for number, levels in wider.items() if everything[levels] > 1}
        found.update({number: wider[number] for number in doubtful if found[number][: depth + 1] not in names})
    return found
