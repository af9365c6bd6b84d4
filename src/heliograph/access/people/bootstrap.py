"""Takes the API keys of `api_key.bootstrap_file` into the store, as EMQX does: a wrong line ends the loading there."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

import msgspec

from heliograph.access.people.api_keys import FileKey, file_keys
from heliograph.access.people.names import PeopleError
from heliograph.access.people.records import StoredApiKey
from heliograph.access.people.store import PeopleStore
from heliograph.storage.errors import StorageError

_log = logging.getLogger(__name__)

_DESCRIPTION: Final = "Bootstrapped From File"


async def load_keys(store: PeopleStore, file: str, now_s: int) -> int:
    """Take the keys of a file; how many were new or changed. What goes wrong is logged, and ends it."""
    try:
        found = await asyncio.to_thread(_read, file)
        records, gone = _changes(store, found, now_s)
        if records:
            await store.put_keys(records, gone)
            _log.info("%d API keys of %s are new or changed", len(records), file)
    except StorageError as error:
        _log.error("api_key.bootstrap_file: its keys cannot be kept [%s]: %s", error.code, error)
        return 0
    return len(records)


def _read(file: str) -> dict[str, FileKey]:
    """The keys of a file up to its first mistake; of several lines for one key the last counts."""
    found: dict[str, FileKey] = {}
    try:
        for key in file_keys(file):
            found[key.api_key] = key
    except PeopleError as error:
        _log.error("api_key.bootstrap_file: %s. The keys before it are taken, those behind it are not", error)
    return found


def _changes(store: PeopleStore, found: Mapping[str, FileKey], now_s: int) -> tuple[dict[str, StoredApiKey], list[str]]:
    """What is to be kept of the keys of a file, and the names of kept keys that go for it."""
    kept = {record.api_key: (name, record) for name, record in store.api_keys()}
    records: dict[str, StoredApiKey] = {}
    gone: list[str] = []
    for key in found.values():
        wanted = StoredApiKey(key.api_key, key.secret_hash, _DESCRIPTION, key.role, True, None, now_s)
        name, record = kept.get(key.api_key, (key.name, None))
        if record is not None and name == key.name and msgspec.structs.replace(record, created_s=now_s) == wanted:
            continue
        records[key.name] = wanted
        if name != key.name:
            gone.append(name)
    return records, gone
