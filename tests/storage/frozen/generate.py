"""Run as a program: make the small databases that every later version must read, with the version that is installed.

`PYTHONPATH=tests python tests/storage/frozen/generate.py tests/storage/frozen/columnar-3` writes a data directory and,
beside it, `expected.json` with what it holds. It is run once for each released layout version and never again: what it
made is part of the tests, and `test_frozen.py` reads it.
"""

import base64
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

from heliograph.storage.columnar.compaction import CompactionOptions, Compactor
from heliograph.storage.columnar.database import LocalDatabase
from heliograph.storage.columnar.node_databases import databases_path
from heliograph.storage.interface import Batch, ColumnarOptions, DatabaseOptions, StorableMessage, StoredMessage
from storage.offloading import offload
from support.databases import open_database, store_batch

_OFFLOADED = "offloaded"  # below the data directory, so that it goes with it
_NOT_NEEDED = ("LOG*", "LOCK")


def main(target: Path) -> None:
    """Make the databases and say what they hold."""
    if target.exists():
        raise SystemExit(f"{target} exists; a frozen database is never made again")
    with tempfile.TemporaryDirectory() as scratch:
        data_dir = Path(scratch)
        expected: dict[str, object] = {}
        closed = open_database(data_dir, "closed")
        fill(closed)
        expected["closed"] = contents(closed)
        offload(closed, 1, _OFFLOADED)
        closed.close()
        # The log of this one holds what no table has, as after a kill.
        options = DatabaseOptions(n_shards=2, layout=ColumnarOptions(wildcard_thresholds=(3, 2), compression="lz4"))
        killed = open_database(data_dir, "killed", options)
        fill(killed)
        expected["killed"] = contents(killed)
        offload(killed, 1, _OFFLOADED)
        shutil.copytree(databases_path(data_dir), databases_path(target), ignore=shutil.ignore_patterns(*_NOT_NEEDED))
        shutil.copytree(data_dir / _OFFLOADED, target / _OFFLOADED)
        killed.close()
    (target / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


def fill(database: LocalDatabase) -> None:
    """Store messages of every shape: columns that vary and that do not, shared streams, two generations."""
    store_batch(database, [message(number) for number in range(1, 40)])
    store_batch(database, [message(n, topic="same/topic", clientid="c", username=None, qos=1) for n in range(40, 60)])
    store_batch(database, [message(60, topic="$app/state", property_bytes=b"\x01\x01\x26\x00\x01k\x00\x01v")])
    database.add_generation()
    for number in range(61, 80):
        store_batch(database, [message(number)])
    store_batch(database, [message(80, topic="long/" + "l" * 2000)])
    for number in range(81, 161):
        store_batch(database, [message(number, payload=b"%d" % number)])
    merge(database)


def merge(database: LocalDatabase) -> None:
    """Merge small blocks, which gives generations of layout version 2."""
    compactor = Compactor(database, CompactionOptions(min_age_us=-1_000_000, min_blocks=4, max_rows=30))
    compactor.step(time.time_ns() // 1000)
    while compactor.step(time.time_ns() // 1000):
        continue


def message(number: int, **fields: object) -> StoredMessage:
    """The message of a number."""
    values: dict[str, object] = {
        "id_high": 1_700_000_000_000_000 + number,
        "id_low": number << 16,
        "topic": f"fleet/{number % 13}/pos",
        "payload": bytes(range(number)),
        "qos": number % 3,
        "retain": number % 2 == 0,
        "clientid": f"c{number % 4}",
        "username": None if number % 5 else f"ü{number}",
        "property_bytes": b"\x01\x00" if number % 7 == 0 else b"",
        "stored_at": 0,
    }
    return StoredMessage(**{**values, **fields})  # type: ignore[arg-type]  # they are fields by name


def contents(database: LocalDatabase) -> list[list[object]]:
    """Every message in the order of streams and positions, with its stream, as JSON has it."""
    rows: list[list[object]] = []
    for topic_filter in ("#", "$app/#"):
        for stream in sorted(database.get_streams(topic_filter), key=lambda stream: stream.id):
            iterator = database.make_iterator(stream.id, topic_filter)
            while isinstance(result := database.next(iterator, 7), Batch) and result.messages:
                rows += [[str(stream.id), *as_json(one), one.stored_at] for one in result.messages]
                iterator = result.iterator
    return rows


def as_json(one: StorableMessage) -> list[object]:
    """A message's fields as JSON has them."""
    payload, properties = (base64.b64encode(data).decode() for data in (one.payload, one.property_bytes))
    return [one.id_high, one.id_low, one.topic, payload, one.qos, one.retain, one.clientid, one.username, properties]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
