"""Run as a program: make keyed databases for later versions to read, with the version that is installed.

`PYTHONPATH=tests python tests/storage/frozen_keyed/generate.py tests/storage/frozen_keyed/keyed-1` writes a data
directory and, beside it, `expected.json` with what it holds. It is run once for each layout version and never again;
`test_keyed_frozen.py` reads what it made.
"""

import base64
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from heliograph.storage.interface import KeyedOptions, StoredMessage
from heliograph.storage.keyed.records import stored_message
from heliograph.storage.keyed.table import KeyedTable, keyed_path

_NOT_NEEDED = ("LOG*", "LOCK")
_START_US = 1_700_000_000_000_000
EXPIRES_US = _START_US + 60_000_000


def main(target: Path) -> None:
    """Make the databases and say what they hold."""
    if target.exists():
        raise SystemExit(f"{target} exists; a frozen database is never made again")
    with tempfile.TemporaryDirectory() as scratch:
        times = iter(range(_START_US, _START_US + 10_000))
        options, folder = KeyedOptions((3, 2)), keyed_path(Path(scratch))
        expected = {}
        tables = [KeyedTable(name, folder / name, options, clock=lambda: next(times)) for name in ("closed", "killed")]
        for table in tables:
            table.open()
            fill(table)
            expected[table.name] = contents(table)
        tables[0].close()
        # The log of the other holds what no table has, as after a kill.
        shutil.copytree(folder, keyed_path(target), ignore=shutil.ignore_patterns(*_NOT_NEEDED))
        tables[1].close()
    (target / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


def fill(table: KeyedTable) -> None:
    """Topics of every shape: streams of their own and shared ones, replaced, deleted and expiring messages."""
    put(table, [message(number, f"fleet/{number}/pos") for number in range(30)])
    put(table, [message(number, f"fleet/{number}/pos", username=None) for number in range(100, 105)])
    put(table, [message(40, topic) for topic in ("a", "a/", "/", "$app/state", "ü/é", "long/" + "l" * 2000)])
    put(table, [message(50, "a", payload=b"newer", qos=2, property_bytes=b"\x01\x01\x26\x00\x01k\x00\x01v")])
    table.commit([table.put(message(60 + n, f"short/{n}"), EXPIRES_US + n, 60) for n in range(6)])
    removed = table.remove("fleet/7/pos")
    assert removed is not None
    table.commit([removed])


def put(table: KeyedTable, messages: Sequence[StoredMessage]) -> None:
    """Store messages as one commit that waits for the disk."""
    table.commit([table.put(message) for message in messages])


def message(number: int, topic: str, **fields: object) -> StoredMessage:
    """A message of which each field differs from the next one's."""
    values = {
        "id_high": _START_US + number,
        "id_low": (7 << 48) + number,
        "topic": topic,
        "payload": bytes([number % 256]) * (number % 7 + 1),
        "qos": number % 3,
        "retain": True,
        "clientid": f"client-{number % 4}",
        "username": "user" if number % 2 else "",
        "property_bytes": b"",
        "stored_at": 0,
    }
    return StoredMessage(**{**values, **fields})  # type: ignore[arg-type]  # they are fields by name


def read(table: KeyedTable, topic_filter: str, after: bytes = b"") -> list[StoredMessage]:
    """The messages of a filter, from behind a key."""
    walk, found = table.walk(topic_filter, after), []
    while not walk.is_done:
        found += [stored_message(key, record) for key, record in table.step(walk, 7, 1 << 20, 100).records]
    return found


def contents(table: KeyedTable) -> list[dict[str, object]]:
    """Every message, by topic."""
    found = read(table, "#") + read(table, "$app/#")
    return sorted((_described(one) for one in found), key=lambda one: str(one["topic"]))


def _described(one: StoredMessage) -> dict[str, object]:
    return {
        "guid": one.guid.hex(),
        "topic": one.topic,
        "payload": base64.b64encode(one.payload).decode(),
        "qos": one.qos,
        "retain": one.retain,
        "clientid": one.clientid,
        "username": one.username,
        "properties": one.property_bytes.hex(),
        "stored_at": one.stored_at,
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
