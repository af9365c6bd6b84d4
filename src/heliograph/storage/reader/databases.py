"""The databases of a node for bulk reading: the answers of the reader process, independent of the protocol.

Databases are opened as RocksDB secondaries, which catch up with the broker before each answer. Requests and answers are
those of `docs/storage.md`.
"""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias

import pyarrow as pa

from heliograph.storage.columnar.arrow_rows import ReadCounts, ReadStub, RowCollector
from heliograph.storage.columnar.damage import SKIP, readable_slices
from heliograph.storage.columnar.extent import rows_between
from heliograph.storage.columnar.inspection import totals_of
from heliograph.storage.columnar.node_databases import databases_path, existing_databases
from heliograph.storage.columnar.offloaded import OffloadRecord, OffloadState, offload_record
from heliograph.storage.columnar.plan import ReadLimits, Step, plan_newest, plan_read, split_range
from heliograph.storage.columnar.replay import BlockSlice, block_slices, select
from heliograph.storage.columnar.salvage import Damage
from heliograph.storage.columnar.secondary import ReadDatabase
from heliograph.storage.engine import translating
from heliograph.storage.errors import StorageDamagedError, StorageError, UnknownDatabaseError
from heliograph.storage.interface import END, Position, StreamId
from heliograph.storage.offload.blocks import READ_AHEAD, OffloadedBlocks
from heliograph.storage.reader.request import Request

_LISTED_DAMAGES_MAX: Final = 100
_LOGGED_PLACES_MAX: Final = 1000

# What a read gives: batches, the last of them with a note for the client where something was left out.
Answer: TypeAlias = pa.RecordBatch | tuple[pa.RecordBatch, bytes]


class StorageReader:
    """The databases of a node, for reading. Owned by the Flight server.

    Args:
        scratch: A directory for RocksDB's notes.
        tell: Called with everything damaged that is come across, each place once.
    """

    def __init__(
        self, data_dir: Path, scratch: Path, tell: Callable[[dict[str, object]], object] = lambda damage: None
    ) -> None:
        self._data_dir = data_dir
        self._path = databases_path(data_dir)
        self._scratch = scratch
        self._lock = threading.Lock()
        self._databases: dict[str, ReadDatabase] = {}
        self._offloaded = OffloadedBlocks(data_dir, READ_AHEAD)
        self._given = ReadCounts()
        self._tell = tell
        self._logged_places: set[str] = set()

    def databases(self) -> list[str]:
        return existing_databases(self._path)

    def database(self, name: str) -> ReadDatabase:
        """A database that exists."""
        with self._lock:
            known = self._databases.get(name)
            if known is None:
                names = self.databases()
                if name not in names:
                    listed = ", ".join(names) or "none"
                    raise UnknownDatabaseError(f"there is no such database; there are: {listed}", database=name)
                known = self._databases[name] = ReadDatabase(name, self._path / name, self._scratch)
            return known

    def let_go(self) -> None:
        """Let go of files that the broker has removed: their space is not free while they are open here."""
        with self._lock:
            known = list(self._databases.values())
        for database in known:
            with suppress(StorageError), database.current():
                pass

    def met(self, error: Exception) -> None:
        """A request failed: say so if that is because of damage."""
        if isinstance(error, StorageDamagedError):
            self._tell_once({"database": error.database, "stream": error.stream or "", "problem": error.problem})

    def _tell_once(self, damage: dict[str, object]) -> None:
        place = f"{damage['database']} {damage['stream']} {damage.get('since')} {damage['problem']}"
        with self._lock:
            is_new = place not in self._logged_places and len(self._logged_places) < _LOGGED_PLACES_MAX
            if is_new:
                self._logged_places.add(place)
        if is_new:
            self._tell(damage)

    def get_streams(self, request: Request) -> dict[str, object]:
        start, end = request.times()
        with self.database(request.database).current() as (_, catalog):
            shards = request.shards(catalog.n_shards)
            found = catalog.streams(request.filters(), start, end)
            streams = [stream for stream in found if shards is None or stream.id.shard in shards]
        return {
            "streams": [
                {
                    "stream": str(stream.id),
                    "shard": stream.id.shard,
                    "generation": stream.id.generation,
                    "rank": list(stream.rank),
                    "topics": stream.topics,
                    "sealed": stream.sealed,
                }
                for stream in streams
            ]
        }

    def plan(self, request: Request) -> dict[str, object]:
        start, end = request.times()
        limits = ReadLimits(request.count("max_messages"), request.count("max_bytes"))
        filters, positions = request.filters(), request.positions()
        with self.database(request.database).current() as (rocks, catalog):
            shards = request.shards(catalog.n_shards)
            plan = plan_read(rocks, catalog, filters, start, end, positions, limits, shards)
            dropped = {stream: one for stream in positions if (one := catalog.dropped(stream)) is not None}
        answer: dict[str, object] = {
            "streams": {
                str(stream): {"position": str(step.position), "messages": step.rows, "bytes": step.message_bytes}
                for stream, step in plan.steps.items()
            },
            "remaining": {"messages": plan.remaining_rows},
        }
        if dropped:
            answer["dropped"] = {
                str(stream): {"messages": one.lost_rows(stream.number, positions[stream])}
                for stream, one in dropped.items()
            }
        return answer

    def plan_newest(self, request: Request) -> dict[str, object]:
        start, end = request.times()
        limits = ReadLimits(request.count("max_messages"), request.count("max_bytes"))
        filters = request.filters()
        with self.database(request.database).current() as (rocks, catalog):
            plan = plan_newest(rocks, catalog, filters, start, end, limits, request.shards(catalog.n_shards))
        return {
            "since": plan.since,
            "until": plan.until,
            "streams": {
                str(stream): {"messages": taken.rows, "bytes": taken.message_bytes}
                for stream, taken in plan.streams.items()
            },
            "remaining": {"messages": plan.remaining_rows},
        }

    def split(self, request: Request) -> dict[str, object]:
        start, _ = request.times()
        limits = ReadLimits(request.count("max_messages"), request.count("max_bytes"))
        filters = request.filters()
        pieces: dict[str, object] = {}
        with self.database(request.database).current() as (rocks, catalog):
            # What is in other streams than those of its topics, a caller may not know.
            asked_for = {stream.id for stream in catalog.streams(filters, None, None)}
            for stream, (after, to) in request.ranges().items():
                gone = catalog.dropped(stream)
                if gone is None:
                    catalog.generation_of(stream)
                    if stream not in asked_for:
                        raise ValueError(f"the stream {str(stream)!r} is not one of the topics asked for")
                    steps = split_range(rocks, stream, max(after, Position.before(start or 0)), to, limits)
                else:  # reading it says why there is nothing
                    steps = [Step(to, 0, 0)]
                pieces[str(stream)] = [
                    {"position": str(step.position), "messages": step.rows, "bytes": step.message_bytes}
                    for step in steps
                ]
        return {"streams": pieces}

    def offloaded(self, request: Request) -> dict[str, object]:
        """The action `offloaded`: generations whose rows are all in files, those of one number in all shards."""
        found: dict[int, list[OffloadRecord | None]] = {}
        with self.database(request.database).current() as (rocks, catalog):
            for generation in catalog.generations():
                record = offload_record(rocks, generation.info.shard, generation.info.number)
                found.setdefault(generation.info.number, []).append(record)
        whole = {
            number: [record for record in records if record is not None and record.state is OffloadState.OFFLOADED]
            for number, records in found.items()
        }
        return {
            "generations": [
                {
                    "generation": number,
                    "files": [
                        self._file_place(record.target, file.path) for record in records for file in record.files
                    ],
                }
                for number, records in whole.items()
                if len(records) == len(found[number])
            ]
        }

    def _file_place(self, target: str, file: str) -> dict[str, str]:
        """Where a file is: the URI or absolute path of the target, and the path below it."""
        return {"target": target if "://" in target else str((self._data_dir / target).absolute()), "path": file}

    def info(self, request: Request) -> dict[str, object]:
        if not request.has_database():
            return {"databases": self.databases(), "read": self._given.counts()}
        with self.database(request.database).current() as (rocks, catalog):
            totals = totals_of(rocks, list(catalog.all_streams()))
            generations = {generation.info.number for generation in catalog.generations()}
        return {
            "database": request.database,
            "messages": totals.messages,
            "bytes": totals.message_bytes,
            "streams": totals.streams,
            "generations": len(generations),
            "shards": catalog.n_shards,
            "site": catalog.site,
            "stored_at": totals.last,
        }

    def read(
        self, request: Request, may_read: Callable[[str], bool] | None = None
    ) -> tuple[pa.Schema, Iterator[Answer]]:
        """A read: the schema of its answer, and the batches, which are read as they are asked for."""
        on_damage = request.on_damage()
        stream = StreamId.parse(request.text("stream"))
        filters, columns = request.filters(), request.columns()
        start, end = request.times()
        after = max(Position.parse(request.text("from", ""), stream), Position.before(start or 0))
        to = Position.parse(request.text("to", ""), stream) if request.has("to") else END
        if end is not None:
            to = min(to, Position.before(end))
        database = self.database(request.database)
        with database.current() as (rocks, catalog):
            selection = select(catalog, stream, filters)
            shards = request.shards(catalog.n_shards)
        clientids = request.clientids()
        looked_at = columns if columns is None or clientids is None else [*columns, "clientid"]
        read_stub = self._offloaded.reading(rocks, stream, looked_at)
        filters_left = None if selection is None or selection.covered else filters
        rows = RowCollector(stream, filters_left, columns, clientids=clientids, counts=self._given, may_read=may_read)
        is_left_out = shards is not None and stream.shard not in shards
        if selection is None or is_left_out or to <= after:
            return rows.schema, iter(())
        chooses = (filters_left, clientids, may_read) != (None, None, None)
        if columns == [] and not chooses and on_damage != SKIP:
            with translating(database.name, database.path):
                count = rows_between(rocks, stream, after, to)
            if count is not None:
                return rows.schema, rows.counted(count)
        if on_damage == SKIP:
            damages: list[Damage] = []
            slices = readable_slices(rocks, stream, selection, after, to, damages.append)
            return rows.schema, _with_storage_errors(self._with_note(rows, slices, read_stub, damages), database)
        slices = block_slices(rocks, stream, selection, after, to)
        return rows.schema, _with_storage_errors(rows.batches(slices, read_stub), database)

    def _with_note(
        self, rows: RowCollector, slices: Iterator[BlockSlice], read_stub: ReadStub, damages: Sequence[Damage]
    ) -> Iterator[Answer]:
        """The batches, then, if something was left out, one without rows that says what."""
        yield from rows.batches(slices, read_stub)
        if damages:
            listed = [damage.to_json() for damage in damages[:_LISTED_DAMAGES_MAX]]
            for damage in listed:
                self._tell_once(damage)
            note = json.dumps({"damaged": listed, "damaged_count": len(damages)})
            yield pa.RecordBatch.from_pylist([], schema=rows.schema), note.encode()


def _with_storage_errors(batches: Iterator[Answer], database: ReadDatabase) -> Iterator[Answer]:
    with translating(database.name, database.path):
        yield from batches
