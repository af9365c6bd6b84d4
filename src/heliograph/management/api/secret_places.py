"""Stored secrets stay with the place that they are for: only who may change the configuration brings them elsewhere.

A caller who could change the URL of a connector and keep its password could send that password to a server of his own.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import orjson

from heliograph.control.proto_v1.conf import CONF_SHOW, ConfShowArgs
from heliograph.management.asking.nodes import Node
from heliograph.management.asking.settings_trees import NO_SETTING, names_of
from heliograph.management.web.callers import Caller
from heliograph.management.web.errors import ApiError
from heliograph.rpc.methods import RpcError
from heliograph.settings.fields import setting_at
from heliograph.settings.secrets import STARS

_Path: TypeAlias = tuple[str, ...]

_MAY_MOVE: Final = "config:write"
_ABOVE: Final = ("node", "environment", "command line")  # layers that no change of a running node overrides


class HeldSetting(NamedTuple):
    """A setting that holds: its value, the layer that says it, and whether it is a secret."""

    value: Any
    origin: str
    is_secret: bool


_DEFAULTS: Final = "defaults"
_NOT_THERE: Final = HeldSetting(None, _DEFAULTS, False)


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
    there = await held_settings(node, tuple(place))
    new = dict(leaves_of(settings))
    secrets = [path for path, held in there.items() if held.is_secret]
    if not secrets or (moved := _moved(tuple(place), there, new)) is None:
        return
    for path in secrets:
        if there[path].origin.startswith(_ABOVE):
            raise _refusal(moved, there, new, path, "it stands in a file of the node or in its environment")
        if path not in new or STARS in _text(new[path]) or new[path] == there[path].value:
            raise _refusal(moved, there, new, path, "give it again, or null for none")


def _refusal(
    moved: _Path, there: Mapping[_Path, HeldSetting], new: Mapping[_Path, Any], secret: _Path, advice: str
) -> ApiError:
    was, now = (_text(value)[:200] for value in (there.get(moved, _NOT_THERE).value, new.get(moved)))
    return ApiError(
        403,
        "UNAUTHORIZED_ROLE",
        f"{'.'.join(moved)} changes from {was!r} to {now!r}, and {'.'.join(secret)} would go there: {advice}; only who "
        "may change the configuration brings a stored secret to another place",
    )


async def held_settings(node: Node, place: _Path) -> dict[_Path, HeldSetting]:
    """The settings that stand there now, by their paths below it."""
    try:
        rows = await node.rows(CONF_SHOW(ConfShowArgs(place[0])))
    except RpcError as error:
        if error.code != NO_SETTING:
            raise
        return {}
    found: dict[_Path, HeldSetting] = {}
    for row in rows:
        path = tuple(names_of(row.path))
        if path[: len(place)] == place:
            secrets = {(*path, *below) for below in row.secrets}
            for leaf, value in leaves_of(orjson.loads(row.plain), path):
                is_secret = any(leaf == secret[: len(leaf)] for secret in secrets)  # a list is one leaf
                found[leaf[len(place) :]] = HeldSetting(value, row.origin, is_secret)
    return found


def _moved(place: _Path, there: Mapping[_Path, HeldSetting], new: Mapping[_Path, Any]) -> _Path | None:
    """A setting that says where secrets go, and says something else than before."""
    from heliograph.config.settings import Config  # most processes never need the declarations

    for path in dict.fromkeys((*there, *new)):
        held = there.get(path, _NOT_THERE)
        is_default = path not in new and held.origin == _DEFAULTS
        setting = setting_at(Config, (*place, *path))
        if setting is not None and setting.is_place and not is_default and _text(new.get(path)) != _text(held.value):
            return path
    return None


def leaves_of(value: Any, path: _Path = ()) -> Iterator[tuple[_Path, Any]]:
    """Each value of some settings that is no object, with its path."""
    if isinstance(value, dict):
        for name, child in value.items():
            yield from leaves_of(child, (*path, str(name)))
    else:
        yield path, value


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(_text, value))
    return "" if value is None else str(value).replace(" ", "")
