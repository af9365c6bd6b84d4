"""Run as a program: make state databases, and one of messages with dropped generations, for later versions to read.

`python tests/storage/frozen_state/generate.py tests/storage/frozen_state/state-1` writes a data directory. It is run
once for each format and never again; `test_frozen_state.py` says what is in it and reads it.
"""

import asyncio
import shutil
import sys
import tempfile
from pathlib import Path

from heliograph.storage.interface import ColumnarOptions, DatabaseOptions, StoredMessage
from heliograph.storage.state.interface import StateBatch
from heliograph.storage.state.local import LocalState
from support.databases import open_database, store_batch

_NOT_NEEDED = ("LOG*", "LOCK", ".readers")


async def fill(state: LocalState) -> None:
    """Put, change and delete keys of every kind."""
    committed = asyncio.Event()
    state.listen(lambda ticket, error: committed.set())
    batch = StateBatch()
    for number in range(50):
        batch.put(b"s%02d" % number, b"value %d" % number)
    batch.put(b"", b"the empty key")
    batch.put(b"\xff" * 3, bytes(range(256)))
    state.submit(batch)
    batch = StateBatch()
    batch.delete_prefix(b"s1")
    batch.put(b"s15", b"again")
    batch.put(b"s20", b"")
    state.submit(batch)
    await committed.wait()


def fill_generations(data_dir: Path) -> None:
    """Store in five generations, drop two of them."""
    options = DatabaseOptions(n_shards=2, layout=ColumnarOptions(wildcard_thresholds=(3, 2)))
    database = open_database(data_dir, "dropped", options)
    for number in range(5):
        if number:
            database.add_generation()
        messages = [
            StoredMessage(1_700_000_000_000_000 + number, n, f"t/{n}", b"%d" % number, 1, False, f"c{n}", None, b"", 0)
            for n in range(10)
        ]
        store_batch(database, messages)
    database.drop_generation(1)
    database.drop_generation(3)
    database.close()


async def main(target: Path) -> None:
    """Make the databases."""
    with tempfile.TemporaryDirectory() as scratch:
        data_dir = Path(scratch)
        fill_generations(data_dir)
        for name in ("closed", "killed"):
            state = LocalState(data_dir, name)
            state.open()
            await fill(state)
            if name == "closed":
                await state.close()
        # The log of `killed` holds what no table has.
        shutil.copytree(data_dir, target, ignore=shutil.ignore_patterns(*_NOT_NEEDED))
        await state.close()


if __name__ == "__main__":
    if Path(sys.argv[1]).exists():
        raise SystemExit(f"{sys.argv[1]} exists; a frozen database is never made again")
    asyncio.run(main(Path(sys.argv[1])))
