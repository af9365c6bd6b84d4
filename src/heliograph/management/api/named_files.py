"""Files of the node that settings name: callers that may not change the configuration name few.

A caller who could name any file could have the node log in at a server of its own with a private key of the node, or
write tables anywhere on its disk.
"""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import orjson

from heliograph.control.proto_v1.conf import CONF_SHOW, ConfShowArgs
from heliograph.management.api.secret_places import held_settings, leaves_of
from heliograph.management.asking.nodes import Node
from heliograph.management.web.callers import Caller
from heliograph.management.web.errors import ApiError
from heliograph.settings.fields import setting_at
from heliograph.settings.kinds import CodeName, NodePath, PemFile, StoreOptions, is_pem
from heliograph.settings.secrets import STARS

_ANY_FILE: Final = "config:write"
_DIRECTORY: Final = "node.tls_dir"
# Options of stores whose values are files, or modules that a library imports.
_OF_A_FILE: Final = re.compile(
    r"(?i)py-.*|(.*[._-])?(ca[_-]?bundle|cert|service_account|application_credentials)|.*(file|path)"
)


async def check_files(caller: Caller, node: Node, place: Sequence[str], settings: Mapping[str, Any]) -> None:
    """Refuse settings that name a file of the node that is not for the caller to name.

    Args:
        place: Where the settings stand in the configuration, as `("connectors", "http", "web")`.
        settings: What is to stand there.

    Raises:
        ApiError: 403, they do, and it was not named there before.
    """
    from heliograph.config.settings import Config  # most processes never need the declarations

    if caller.may(_ANY_FILE, "PUT"):
        return
    held = None
    for path, value in leaves_of(settings):
        setting = setting_at(Config, (*place, *path))
        kind = None if setting is None else setting.kind
        if (
            not isinstance(kind, NodePath | PemFile | StoreOptions | CodeName)
            or not (isinstance(value, str) or isinstance(kind, StoreOptions))
            or value in (None, "", STARS)
        ):
            continue
        if held is None:
            held = await held_settings(node, tuple(place))
        if path in held and held[path].value == value:
            continue
        if isinstance(kind, NodePath):
            if Path(value).is_absolute():
                text = f"{'.'.join(path)} is {value[:200]!r}: expected a relative path"
                raise ApiError(403, "UNAUTHORIZED_ROLE", f"{text}; only who may change the configuration names others")
        elif isinstance(kind, PemFile):
            await _check_file(node, path, value)
        elif isinstance(kind, CodeName) or kind.may_load_code or _OF_A_FILE.fullmatch(path[-1]):
            text = f"{'.'.join(path)}: only who may change the configuration sets this, since it may name files or code"
            raise ApiError(403, "UNAUTHORIZED_ROLE", f"{text} of the node")


async def _check_file(node: Node, path: Sequence[str], value: str) -> None:
    if is_pem(value):
        return
    (row,) = await node.rows(CONF_SHOW(ConfShowArgs(_DIRECTORY)))
    directory = (node.data_dir / str(orjson.loads(row.plain))).absolute()
    if _is_below(value, directory):
        return
    raise ApiError(
        403,
        "UNAUTHORIZED_ROLE",
        f"{'.'.join(path)} is {value[:200]!r}: expected a file below {directory} ({_DIRECTORY}), or its text in PEM; "
        "only who may change the configuration names other files of the node",
    )


def _is_below(file: str, directory: Path) -> bool:
    """No name may go up; where a link leads, the machine's administrator decides, who makes links."""
    return os.pardir not in Path(file).parts and directory in Path(file).absolute().parents
