"""The control socket: where a node is asked, and the list of what can be asked there."""

import grp
import logging
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, Final

from heliograph import __version__
from heliograph.config import Config
from heliograph.control import broker, conf, node, trace
from heliograph.node.asked import methods_of_parts
from heliograph.node.clock import uptime_us
from heliograph.node.config_changes import ConfigChangesPart
from heliograph.node.data_dir import DataDirectory
from heliograph.node.kernel import KernelPart
from heliograph.node.ticker import Ticker
from heliograph.node.tracing import TracingPart
from heliograph.observe.alarms import UNTIL_START
from heliograph.observe.metric import Sample, counter, gauge, labelled
from heliograph.parts import Change, Part, Parts
from heliograph.rpc.methods import Method
from heliograph.rpc.server import RpcServer
from heliograph.rpc.socket_path import CONTROL_SOCKET, short_path

_log = logging.getLogger(__name__)

ALARM: Final = "control_socket_closed"
_BACKLOG: Final = 16
_SECOND_US: Final = 1_000_000
_LATE_S: Final = 1.0  # a loop that is so late has no time for what is not vital


class ControlGroupError(Exception):
    """`node.control_group` cannot be used; the message says why."""

    code: ClassVar[str] = "node_control_group"


class ControlPart(Part):
    """Answers on the control socket of the data directory; owned by the node.

    A socket that cannot be opened does not keep the node from its clients: an alarm says why.

    Args:
        parts: All parts of the node.
    """

    name = "control"
    needs = (
        *("data_dir", "kernel", "listeners", "ticker", "config_changes"),
        *("retained", "delayed", "rules", "memory", "tracing", "databases", "reader", "pipeline"),
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
        self._server: RpcServer | None = None
        self._said = ""

    async def start(self) -> None:
        """Open the socket.

        Raises:
            ControlGroupError: There is no such group.
        """
        group = group_number(self._config.node.control_group)
        self._ready_us = uptime_us()
        server = RpcServer(
            self._methods(),
            f"heliograph {__version__} ({self._config.node.name})",
            "control socket",
            on_fault=lambda method, error: self._kernel.broker.faults.contain(f"control.{method}", error),
            overload=self._overload,
            audit=self._parts().get(ConfigChangesPart).audit,
        )
        try:
            listening = bind(self._path)
        except OSError as error:
            self._said = f"{self._path}: {error.strerror or error}"
            told = f"the node cannot be asked anything: {self._said}. {UNTIL_START}"
            _log.error("%s", told)
            self._kernel.alarms.activate(ALARM, told, {"path": str(self._path)})
            return
        open_to_group(self._path, group)
        await server.start(listening)
        self._server = server

    async def stop(self) -> None:
        """Close it; what is being answered is given up."""
        server, self._server = self._server, None
        if server is not None:
            await server.stop()
            self._path.unlink(missing_ok=True)

    async def check(self, new: Config) -> Change | None:
        """Another group."""
        name = new.node.control_group
        if name == self._config.node.control_group:
            return None
        group = group_number(name)
        return Change(lambda: self._use(new, group))

    def health(self) -> str:
        """Why nothing can be asked."""
        return self._said

    def samples(self) -> list[Sample]:
        """Connections."""
        return [] if self._server is None else labelled("control", self._server.statistics())

    def _use(self, config: Config, group: int | None) -> None:
        self._config = config
        open_to_group(self._path, group)

    def _uptime_s(self) -> int:
        return (uptime_us() - self._ready_us) // _SECOND_US

    def _overload(self) -> str:
        parts = self._parts()
        late_s = parts.get(Ticker).lag_s
        return f"the event loop is {late_s:.1f} s late" if late_s > _LATE_S else ""

    def _methods(self) -> list[Method]:
        """All that can be asked; one line for each module of `control`."""
        parts, kernel = self._parts(), self._kernel
        context = kernel.context
        manager = parts.get(ConfigChangesPart).manager
        return [
            *([] if manager is None else conf.methods(manager)),
            *node.methods(self._config.node.name, parts, context, kernel.alarms, self._uptime_s),
            *trace.methods(lambda: parts.get(TracingPart).traces),
            *broker.methods(parts, kernel.clock.now_us, self._uptime_s),
            *methods_of_parts(parts),
        ]


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
