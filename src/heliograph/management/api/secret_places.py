"""Stored secrets stay with the place that they are for: only who may change the configuration brings them elsewhere.

A caller who could change the URL of a connector and keep its password could send that password to a server of his own.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from heliograph.control.proto_v1.conf import CONF_SHOW, ConfShowArgs
from heliograph.management.asking.nodes import Node
from heliograph.management.asking.settings_trees import NO_SETTING, names_of, plain_value
from heliograph.management.web.callers import Caller
from heliograph.management.web.errors import ApiError
from heliograph.rpc.methods import RpcError
from heliograph.settings.secrets import STARS

_Path: TypeAlias = tuple[str, ...]

_MAY_MOVE: Final = "config:write"
_PLACE: Final = re.compile(
    r"(?i)(.*[._-])?(url|uri|server|host|endpoint|place|connector|warehouse|proxy|address|broker|port)s?"
)
_ABOVE: Final = ("node", "environment", "command line")  # layers that no change of a running node overrides


async def check_secrets_stay(caller: Caller, node: Node, place: Sequence[str], settings: Mapping[str, Any]) -> None:
    """Refuse settings that keep a secret of those that are there, and name another place for it.

    Args:
        place: Where the settings stand in the configuration, as `("connectors", "http", "web")`.
        settings: What is to stand there, with stars for secrets that stay.

    Raises:
        ApiError: 403, they do, and the caller may not.
    """
    if caller.may(_MAY_MOVE, "PUT"):
        return
    there = await _settings(node, tuple(place))
    new = dict(_leaves(settings))
    secrets = [path for path, (value, _) in there.items() if STARS in _text(value)]
    if not secrets or (moved := _moved(there, new)) is None:
        return
    for path in secrets:
        if there[path][1].startswith(_ABOVE):
            raise _refusal(moved, there, new, path, "it stands in a file of the node or in its environment")
        if path not in new or STARS in _text(new[path]):
            raise _refusal(moved, there, new, path, "give it again, or null for none")


def _refusal(
    moved: _Path, there: Mapping[_Path, tuple[Any, str]], new: Mapping[_Path, Any], secret: _Path, advice: str
) -> ApiError:
    was, now = (_text(value)[:200] for value in (there.get(moved, ("", ""))[0], new.get(moved)))
    return ApiError(
        403,
        "UNAUTHORIZED_ROLE",
        f"{'.'.join(moved)} changes from {was!r} to {now!r}, and {'.'.join(secret)} would go there: {advice}; only who "
        "may change the configuration brings a stored secret to another place",
    )


async def _settings(node: Node, place: _Path) -> dict[_Path, tuple[Any, str]]:
    """The settings that stand there now: value and layer of each, by their paths below it."""
    try:
        rows = await node.rows(CONF_SHOW(ConfShowArgs(place[0])))
    except RpcError as error:
        if error.code != NO_SETTING:
            raise
        return {}
    found: dict[_Path, tuple[Any, str]] = {}
    for row in rows:
        path = tuple(names_of(row.path))
        if path[: len(place)] == place:
            for below, value in _leaves(plain_value(row.value), path[len(place) :]):
                found[below] = (value, row.origin)
    return found


def _moved(there: Mapping[_Path, tuple[Any, str]], new: Mapping[_Path, Any]) -> _Path | None:
    """A setting that says where, and says something else than before."""
    for path in dict.fromkeys((*there, *new)):
        value, origin = there.get(path, (None, "defaults"))
        is_default = path not in new and origin == "defaults"
        if path and _PLACE.fullmatch(path[-1]) and not is_default and _text(new.get(path)) != _text(value):
            return path
    return None


def _leaves(value: Any, path: _Path = ()) -> Iterator[tuple[_Path, Any]]:
    if isinstance(value, dict):
        for name, child in value.items():
            yield from _leaves(child, (*path, str(name)))
    else:
        yield path, value


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(_text, value))
    return "" if value is None else str(value).replace(" ", "")
