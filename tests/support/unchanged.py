"""Checks that a node which tests share is left as it was: what of it a request can change is the same afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import httpx

# What tests make and must take away again, and what names one of it.
_LISTS: Final = {
    "users": "username",
    "api_key": "name",
    "banned": "who",
    "rules": "id",
    "connectors": "name",
    "actions": "name",
    "alarms?activated=true": "name",
    "authentication": "id",
    "authorization/sources": "type",
    "clients?limit=1000": "clientid",
}
_CONFIGURATION: Final = "configuration"


@contextmanager
def unchanged(api: httpx.Client, who: str) -> Iterator[None]:
    """Fail where what happens within leaves a node otherwise than it was.

    Args:
        api: A client of the node's HTTP API whose user may see everything.
        who: What is named where something is left: a test, or a module of tests.

    Raises:
        AssertionError: Something was added, is missing, or was changed.
    """
    before = snapshot(api)
    yield
    after = snapshot(api)
    changes = [
        f"{place}: {', '.join(sorted(added | missing))}"
        for place in before
        if (added := {f"+{name}" for name in after[place] - before[place]})
        | (missing := {f"-{name}" for name in before[place] - after[place]})
    ]
    assert not changes, f"{who} leaves the node that others use changed: {'; '.join(changes)}"


def snapshot(api: httpx.Client) -> dict[str, set[str]]:
    """What of a node tests may leave, by place."""
    found = {place.partition("?")[0]: _names(api, place, name) for place, name in _LISTS.items()}
    text = api.get("/configs", headers={"accept": "text/plain"})
    text.raise_for_status()
    return {**found, _CONFIGURATION: set(text.text.splitlines())}


def _names(api: httpx.Client, place: str, name: str) -> set[str]:
    answer = api.get(f"/{place}")
    if answer.status_code == httpx.codes.UNAUTHORIZED:  # users and keys, of which an API key sees none
        return set()
    answer.raise_for_status()
    found = answer.json()
    rows: list[dict[str, Any]] = found if isinstance(found, list) else found.get("data", found.get("sources"))
    return {str(row[name]) for row in rows}
