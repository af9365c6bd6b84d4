"""Clients as the API shows them: objects with EMQX's keys."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from heliograph.control.columns import Column, FactKind, In, answers_of, columns_in, schema_of
from heliograph.control.proto_v1.clients import CLIENT, ClientRow
from heliograph.management.web.times import rfc3339

_COLUMNS: Final = columns_in(CLIENT, In.API)
_NAMES: Final = ("clientid", "node", *(name for name in _COLUMNS if name != "clientid"))
_FIELDS_KEPT: Final = 16  # of so many lists of fields
KEYS: Final = frozenset(_NAMES)
SCHEMA: Final = schema_of(CLIENT)


def client_object(row: ClientRow, node: str, names: tuple[str, ...] = _NAMES) -> Any:
    """A client, which `json_response` writes.

    Args:
        names: The keys that it has, of `KEYS`; by default every key that EMQX has of it.
    """
    found = _answers(names)(row)
    if "node" in names:
        found.node = node
    return found


@lru_cache(_FIELDS_KEPT)
def _answers(names: tuple[str, ...]) -> Callable[[object], Any]:
    place = Column("node", "Node", FactKind.TEXT, field="clientid")  # its value is what is asked, not the row's
    return answers_of({name: place if name == "node" else _COLUMNS[name] for name in names}, rfc3339)
