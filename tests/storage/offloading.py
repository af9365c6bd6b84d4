"""Offload as the tests need it: at once and on any file system, or by the process, with what was stored read back."""

from collections.abc import AsyncIterator
from pathlib import Path

from pyarrow import fs

from heliograph.storage.columnar.database import LocalDatabase
from heliograph.storage.columnar.offloaded import OffloadPendingError
from heliograph.storage.columnar.secondary import reading
from heliograph.storage.interface import Batch, StoredMessage, StreamIterator
from heliograph.storage.offload.blocks import BlockReader, OffloadedBlocks
from heliograph.storage.offload.commit import finish, generation_at, mark, replace_blocks
from heliograph.storage.offload.files import verified_replacements, write_files
from heliograph.storage.offload.steps import Offload
from heliograph.storage.offload.target import Target
from storage.messages import MakeMessage
from support.databases import store_batch

LATER = 1 << 60  # a time at which everything is due


def fill(database: LocalDatabase, make_message: MakeMessage, commits: int = 40) -> None:
    """Commits of one and of many messages, in streams of their own and shared ones, with every kind of column."""
    for number in range(commits):
        store_batch(
            database,
            [
                make_message(
                    f"fleet/{device}/pos",
                    b"%d-%d" % (number, device),
                    clientid=("ada", "bob", "cy")[device % 3],
                    username=[None, "u", "Ω"][device % 3],
                    qos=device % 3,
                    retain=device % 2 == 0,
                    property_bytes=b"\x01\x01" if device % 4 == 0 else b"",
                )
                for device in range(number % 7 + 1)
            ],
        )


def offload(database: LocalDatabase, number: int, target: str, filesystem: fs.FileSystem | None = None) -> None:
    """Offload a closed generation of all shards, and read it back from then on."""
    data_dir = database.path.parent.parent
    place = Target.open(target, data_dir) if filesystem is None else Target(filesystem, target)
    with reading(data_dir, database.name) as (rocks, catalog):
        for shard in range(catalog.n_shards):
            generation = generation_at(catalog, shard, number)
            assert generation is not None
            files = write_files(rocks, catalog, generation, place)
            replacements = verified_replacements(rocks, catalog, generation, place, files)
            assert mark(database, shard, number, target, files)
            replace_blocks(database, replacements)
            finish(database, shard, number)
    if filesystem is None:
        database.fetch = OffloadedBlocks(data_dir).fetch
    else:
        reader = BlockReader(place)
        database.fetch = lambda rocks, stream, key, stub: reader.block(stream, key, stub)


def files_of(directory: Path) -> list[Path]:
    """The Parquet files below a directory."""
    return sorted(directory.rglob("*.parquet"))


async def read_all(database: LocalDatabase, offloaded: Offload, topics: str = "#") -> list[StoredMessage]:
    """Everything of a filter, as a consumer in the event loop reads it: what is being fetched is asked for again."""
    found: list[StoredMessage] = []
    for stream in sorted(database.get_streams(topics), key=lambda stream: stream.rank):
        async for batch in batches(database, offloaded, database.make_iterator(stream.id, topics)):
            found += batch.messages
    return found


async def batches(database: LocalDatabase, offloaded: Offload, iterator: StreamIterator) -> AsyncIterator[Batch]:
    """What follows an iterator."""
    while True:
        try:
            batch = database.next(iterator, 50)
        except OffloadPendingError as error:
            iterator = error.iterator or iterator
            await offloaded.fetched()
            continue
        if not isinstance(batch, Batch) or not batch.messages:
            return
        yield batch
        iterator = batch.iterator
