"""What can be asked of the databases of a node while it runs, and of the storage reader."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from heliograph.control.proto_v1 import storage as proto
from heliograph.control.slices import in_slices
from heliograph.observe.metric import Sample
from heliograph.rpc.methods import Call, Method, NoArgs, RpcError
from heliograph.storage.columnar.database import LocalDatabase
from heliograph.storage.columnar.inspection import disk_bytes, totals_of
from heliograph.storage.health import Health
from heliograph.storage.repair.record_database import state_directories

_PREFIX: Final = "storage."


@dataclass(frozen=True, slots=True)
class AskedDatabase:
    """A database of messages, and whether it works."""

    database: LocalDatabase
    health: Health


class AskedReader(Protocol):
    """The storage reader; `node.reader` implements it."""

    @property
    def is_enabled(self) -> bool:
        """Whether there is to be one."""

    @property
    def pid(self) -> int | None:
        """Its process; None while it does not run."""

    @property
    def bind(self) -> str:
        """HOST:PORT that it serves on."""

    def samples(self) -> Iterable[Sample]: ...


def methods(
    data_dir: Path,
    databases: Callable[[], Sequence[AskedDatabase]],
    samples: Callable[[], Iterable[Sample]],
    health: Callable[[], Mapping[str, str]],
    reader: AskedReader | None,
    site: Callable[[], str],
) -> list[Method]:
    """What can be asked: `ds.databases`, `ds.generations`, `ds.streams`, `ds.site`, `ds.reader`.

    Args:
        data_dir: The node's data directory.
        databases: Those of messages.
        samples: What all databases count, those of small records too.
        health: Which parts of the node do not work, and why; a database of records has the name of its part.
        reader: The storage reader; None where there is none.
        site: What its databases are known by; empty where no messages are stored.
    """
    answers = StorageAnswers(data_dir, databases, samples, health, reader)
    return [
        proto.DS_DATABASES.by(answers.databases),
        proto.DS_GENERATIONS.by(answers.generations),
        proto.DS_STREAMS.by(answers.streams),
        proto.DS_SITE.by(lambda args, call: proto.StorageSite(site())),
        proto.DS_READER.by(answers.reader),
    ]


class StorageAnswers:
    """Answers what is asked of databases; owned by the control socket.

    Args:
        data_dir: The node's data directory.
        databases: Those of messages.
        samples: What all databases count, those of small records too.
        health: Which parts of the node do not work, and why; a database of records has the name of its part.
        reader: The storage reader; None where there is none.
    """

    def __init__(
        self,
        data_dir: Path,
        databases: Callable[[], Sequence[AskedDatabase]],
        samples: Callable[[], Iterable[Sample]],
        health: Callable[[], Mapping[str, str]],
        reader: AskedReader | None,
    ) -> None:
        self._data_dir = data_dir
        self._health = health
        self._databases = databases
        self._samples = samples
        self._reader = reader

    async def databases(self, args: NoArgs, call: Call) -> AsyncIterator[Sequence[proto.DatabaseRow]]:
        counts = _by_database(self._samples())
        for asked in self._databases():
            name = asked.database.name
            size = await asyncio.to_thread(_size, asked.database.path)
            yield [_messages_row(asked, size, counts.pop(name, {}))]
        directories = await asyncio.to_thread(state_directories, self._data_dir)
        problems = self._health()
        for name, numbers in counts.items():
            path = directories.get(name)
            size = -1 if path is None else await asyncio.to_thread(_size, path)
            yield [_state_row(name, path, size, problems.get(name, ""), numbers)]

    def generations(self, args: proto.DatabaseWanted, call: Call) -> Iterator[Sequence[proto.GenerationRow]]:
        return in_slices(_generation_rows(self._named(args.database)))

    def streams(self, args: proto.DatabaseWanted, call: Call) -> Iterator[Sequence[proto.StreamRow]]:
        """Answer `ds.streams`: those of one database, with what they have learned of their topics."""
        return in_slices(_stream_rows(self._named(args.database)), lambda row: len(row.topics))

    def _named(self, name: str) -> LocalDatabase:
        return database_of(self._databases(), name)

    def reader(self, args: NoArgs, call: Call) -> proto.ReaderState:
        reader = self._reader
        if reader is None or not reader.is_enabled:
            return proto.ReaderState(False, None, "", {})
        counts = {sample.name.removeprefix("reader."): sample.value for sample in reader.samples()}
        return proto.ReaderState(True, reader.pid, reader.bind, counts)


def database_of(databases: Sequence[AskedDatabase], name: str) -> LocalDatabase:
    """The open database of messages of a name.

    Raises:
        RpcError: There is none.
    """
    named = {asked.database.name: asked.database for asked in databases}
    database = named.get(name)
    if database is None or not database.is_open:
        names = ", ".join(named) or "none"
        raise RpcError("not_found", f"no messages are stored in a database {name!r}; there are: {names}")
    return database


def _by_database(samples: Iterable[Sample]) -> dict[str, dict[str, float]]:
    """The counts of each database; histograms, which have a second label, are left out."""
    found: dict[str, dict[str, float]] = {}
    for sample in samples:
        if sample.name.startswith(_PREFIX) and len(sample.labels) == 1:
            found.setdefault(sample.labels[0], {})[sample.name.removeprefix(_PREFIX)] = sample.value
    return found


def _messages_row(asked: AskedDatabase, size: int, counts: Mapping[str, float]) -> proto.DatabaseRow:
    database = asked.database
    shards = 0
    if database.is_open:
        shards = database.contents()[1].n_shards
    return proto.DatabaseRow(
        database.name,
        "messages",
        database.is_open,
        str(asked.health),
        str(database.path),
        size,
        shards,
        int(counts.get("generations", 0)),
        int(counts.get("streams", 0)),
        dict(counts),
    )


def _state_row(name: str, path: Path | None, size: int, problem: str, counts: Mapping[str, float]) -> proto.DatabaseRow:
    is_open = bool(counts.get("open"))
    if not is_open and not problem:
        problem = "it is not open; the alarms say why"
    return proto.DatabaseRow(name, "state", is_open, problem, str(path or ""), size, 0, 0, 0, dict(counts))


def _size(path: Path) -> int:
    try:
        return disk_bytes(path)
    except OSError:
        return -1


def _generation_rows(database: LocalDatabase) -> Iterator[proto.GenerationRow | None]:
    """The sums of each generation, a stream at a time: two seeks for each."""
    rocks, catalog = database.contents()
    for generation in catalog.generations():
        info = generation.info
        streams = messages = size = 0
        for stream in catalog.streams_in(generation):
            totals = totals_of(rocks, [stream])
            streams += 1
            messages += totals.messages
            size += totals.message_bytes
            yield None
        yield proto.GenerationRow(info.shard, info.number, info.layout, info.since, info.until, streams, messages, size)


def _stream_rows(database: LocalDatabase) -> Iterator[proto.StreamRow | None]:
    """Each stream: two seeks."""
    rocks, catalog = database.contents()
    for generation in catalog.generations():
        info, structure = generation.info, generation.structure
        for stream in catalog.streams_in(generation):
            totals = totals_of(rocks, [stream])
            topics = structure.topics_of(stream.number) or ""
            sums = (totals.messages, totals.message_bytes, totals.last)
            yield proto.StreamRow(info.shard, info.number, str(stream), topics, *sums)
