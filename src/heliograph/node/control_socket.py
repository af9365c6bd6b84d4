"""The file of a control socket: who may use it."""

import grp
import logging
import os
import socket
from pathlib import Path
from typing import ClassVar, Final

from heliograph.rpc.socket_path import short_path

_log = logging.getLogger(__name__)

_BACKLOG: Final = 16


class ControlGroupError(Exception):
    """`node.control_group` cannot be used; the message says why."""

    code: ClassVar[str] = "node_control_group"


def bind(path: Path) -> socket.socket:
    """A socket that listens at a path, for its user only; it takes the place of one that a killed node has left.

    Raises:
        OSError: The path cannot be used.
    """
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.unlink(missing_ok=True)
        with short_path(path) as short:
            listening.bind(os.fspath(short))
        path.chmod(0o600)
        listening.listen(_BACKLOG)
    except OSError:
        listening.close()
        raise
    return listening


def group_number(name: str) -> int | None:
    """The number of a group; None for no name.

    Raises:
        ControlGroupError: There is no such group.
    """
    if not name:
        return None
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError as error:
        raise ControlGroupError(f"node.control_group: there is no group {name!r}") from error


def open_to_group(path: Path, group: int | None) -> None:
    """Let a group use the socket and pass through its directory, in which it can read nothing else; None for none."""
    try:
        if group is not None:
            os.chown(path, -1, group)
            os.chown(path.parent, -1, group)
        path.chmod(0o600 if group is None else 0o660)
        path.parent.chmod(0o700 if group is None else 0o710)
    except OSError as error:
        _log.error("node.control_group: %s cannot be given to the group: %s", path, error.strerror)
