"""The control socket of a node as a part of it, and who may use its file."""

import asyncio
import grp
import importlib
import logging
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from heliograph.config.settings import Config
from heliograph.node.clock import uptime_us
from heliograph.node.data_dir import DataDirectory
from heliograph.node.kernel import KernelPart
from heliograph.observe.alarms import UNTIL_START
from heliograph.observe.metric import Sample, counter, gauge, labelled
from heliograph.parts import Change, Part, Parts
from heliograph.rpc.socket_path import CONTROL_SOCKET, short_path

if TYPE_CHECKING:
    from heliograph.rpc.server import RpcServer


_log = logging.getLogger(__name__)
ALARM: Final = "control_socket_closed"
_ASKED: Final = "heliograph.node.asked"
_BACKLOG: Final = 16


class ControlPart(Part):
    """Answers on the control socket of the data directory; owned by the node.

    A socket that cannot be opened does not keep the node from its clients: an alarm says why. What can be asked is
    loaded, in a thread, when the first asker comes: neither a start nor a node that is asked nothing pays for it.
    """

    name = "control"
    needs = (
        *("data_dir", "kernel", "listeners", "ticker", "config_changes"),
        *(
            "retained",
            "delayed",
            "rules",
            "memory",
            "tracing",
            "databases",
            "overload",
            "reader",
            "pipeline",
            "sources",
        ),
    )
    roots = ("node.control_group", "node.name")
    metrics = (
        gauge("control.connections", "Connections to the control socket."),
        counter("control.accepted", "Connections to it since the start."),
        counter("control.cut", "Of these, those that were cut off: they broke the rules, or did not read."),
    )

    def __init__(
        self, config: Config, directory: DataDirectory, kernel: KernelPart, parts: Callable[[], Parts]
    ) -> None:
        self._config = config
        self._path = directory.path / CONTROL_SOCKET
        self._kernel = kernel
        self._parts = parts
        self._ready_us = 0
        self._listening: socket.socket | None = None
        self._beginning: asyncio.Task[None] | None = None
        self._server: RpcServer | None = None
        self._said = ""

    async def start(self) -> None:
        group = group_number(self._config.node.control_group)
        self._ready_us = uptime_us()
        try:
            listening = bind(self._path)
        except OSError as error:
            self._tell_closed(f"{self._path}: {error.strerror or error}")
            return
        open_to_group(self._path, group)
        self._listening = listening
        asyncio.get_running_loop().add_reader(listening, self._begin)

    async def stop(self) -> None:
        listening, self._listening = self._listening, None
        if listening is None:
            return
        asyncio.get_running_loop().remove_reader(listening)
        if self._beginning is not None:
            self._beginning.cancel()
            await asyncio.gather(self._beginning, return_exceptions=True)
        if self._server is not None:
            await self._server.stop()
        listening.close()
        self._path.unlink(missing_ok=True)

    async def check(self, new: Config) -> Change | None:
        name = new.node.control_group
        if name == self._config.node.control_group:
            return None
        group = group_number(name)
        return Change(lambda: self._use(new, group))

    def health(self) -> str:
        return self._said

    def samples(self) -> list[Sample]:
        return [] if self._server is None else labelled("control", self._server.statistics())

    def _use(self, config: Config, group: int | None) -> None:
        self._config = config
        open_to_group(self._path, group)

    def _begin(self) -> None:
        assert self._listening is not None
        asyncio.get_running_loop().remove_reader(self._listening)
        self._beginning = asyncio.create_task(self._serve(self._listening), name="control socket")

    async def _serve(self, listening: socket.socket) -> None:
        try:
            asked = await asyncio.to_thread(importlib.import_module, _ASKED)
            server: RpcServer = asked.make_server(self._parts(), self._config.node.name, self._ready_us)
            await server.start(listening)
        except Exception as error:  # noqa: BLE001 - a fault of what can be asked does not concern clients
            self._kernel.broker.faults.contain("control", error)
            self._tell_closed(f"{type(error).__name__}: {error}")
            return
        self._server = server

    def _tell_closed(self, why: str) -> None:
        self._said = why
        text = f"the node cannot be asked anything: {why}. {UNTIL_START}"
        _log.error("%s", text)
        self._kernel.alarms.activate(ALARM, text, {"path": str(self._path)})


class ControlGroupError(Exception):
    code: ClassVar[str] = "node_control_group"


def bind(path: Path) -> socket.socket:
    """A socket for its user only, in the place of one that a killed node has left."""
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
    """None for no name; raises `ControlGroupError`."""
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
