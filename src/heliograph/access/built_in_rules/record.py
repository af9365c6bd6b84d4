"""The records of the database of built-in rules. Its format is frozen: earlier databases must stay readable.

A key is one byte for the kind of owner, and the client id or user name in UTF-8. A value is the list of rule objects
as JSON, in the order in which they are tried.
"""

import json
from typing import Any, Final

ALL: Final = "all"
CLIENTID: Final = "clientid"
USERNAME: Final = "username"
#: The kinds of owners of rules, in the order in which they are tried.
KINDS: Final = (CLIENTID, USERNAME, ALL)

Row = dict[str, Any]

_BYTES: Final = {ALL: b"a", CLIENTID: b"c", USERNAME: b"u"}
_KIND_OF: Final = {byte: kind for kind, byte in _BYTES.items()}
RECORDS: Final = tuple(_KIND_OF)


def key_of(kind: str, name: str) -> bytes:
    return _BYTES[kind] + name.encode()


def prefix_of(kind: str) -> bytes:
    return _BYTES[kind]


def read_key(key: bytes) -> tuple[str, str]:
    return _KIND_OF[key[:1]], key[1:].decode()


def encode(rows: list[Row]) -> bytes:
    return json.dumps(rows, ensure_ascii=False).encode()


def decode(value: bytes) -> list[Row]:
    """Raises `ValueError`."""
    rows = json.loads(value)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError("it is no list of objects")
    return rows
