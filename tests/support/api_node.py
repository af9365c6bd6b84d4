"""A node with the HTTP API in this process."""

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from heliograph.config.management_settings import read_settings_line
from heliograph.management.program import Program
from heliograph.node import Node
from heliograph.node.actions import ActionsPart
from heliograph.node.management import ManagementPart, ManagementProcess
from heliograph.node.reader import ReaderPart
from heliograph.node.ticker import Ticker
from heliograph.observe.alarms import Alarms
from heliograph.processes.programs import Programs
from support.live_node import LiveNode
from support.management import KEY, SECRET, Served
from support.patient_loop import PatientLoop
from support.ports import held_port
from support.python_copies import python
from support.waiting import wait_until

T = TypeVar("T")

_LOGGER: Final = logging.getLogger("heliograph")
_WAIT_S: Final = 100.0  # beyond which it does not come; for a machine that is slow


class ApiNode(Served):
    """One in this process, on a thread with an event loop of its own; a context.

    What the node or the API starts as programs are processes here, too, but copies of one that has loaded their modules
    (`python_copies`): they are not its children, and have more loaded than they need.

    What waits there goes by the loop's clock, which does not count what a slow machine takes; what the API says of the
    time of day by `now_s`.

    Args:
        directory: Where it keeps its files.
        settings: More HOCON, in the lowest layer of the configuration.
        now_s: The wall clock of the API, in seconds since the epoch.
    """

    def __init__(self, directory: Path, settings: str = "", now_s: Callable[[], float] = time.time) -> None:
        super().__init__(directory, settings)
        self._port = held_port(self)
        free = f'listeners.tcp.default.bind = "127.0.0.1:{self._port}"\ndurable_storage.flight.bind = "127.0.0.1:0"\n'
        self._live = LiveNode(directory, free, self.base)
        self._now_s = now_s
        self._programs = Programs(python)
        self._log = _Log()
        self._level = logging.NOTSET  # of the logger, before
        self._loop: PatientLoop
        self._thread = threading.Thread(target=self._serve, name=f"node in {directory.name}", daemon=True)
        self._is_there = threading.Event()
        self._is_served = threading.Event()
        self._stop: asyncio.Event
        self._failure: BaseException | None = None

    @property
    def port(self) -> int:
        """Where MQTT clients connect."""
        return self._port

    @property
    def data_dir(self) -> Path:
        """Where it stores."""
        return self._live.data_dir

    @property
    def log_text(self) -> str:
        """What this process has logged since its start."""
        return "".join(f"{line}\n" for line in self._log.lines)

    @property
    def inner(self) -> Node:
        """The node itself, which belongs to its thread: look at it in `call`."""
        return self._live.node

    def call(self, function: Callable[[], T]) -> T:
        """Call a function in the thread of the node."""

        async def called() -> T:
            return function()

        return self.run(called())

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the event loop of the node."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(_WAIT_S)

    def advance(self, seconds: float) -> None:
        """Let so much time pass for whatever waits in the node and its API."""
        self.call(lambda: self._loop.advance(seconds))

    def again(self, url: str) -> None:
        """Wait until the API is served elsewhere than at an address of before."""
        wait_until(lambda: self.url != url, "the HTTP API is served again", is_alive=self._thread.is_alive)
        self.api.base_url = f"{self.url}/api/v5"

    def _serve(self) -> None:
        try:
            with asyncio.Runner(loop_factory=PatientLoop) as runner:
                runner.run(self._until_stopped())
        except BaseException as error:  # noqa: BLE001 - the test raises it
            self._failure = error
        self._is_there.set()

    async def _until_stopped(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, PatientLoop)
        self._loop, self._stop = loop, asyncio.Event()
        await self._live.start(prepare=self._prepare)
        try:
            self._live.node.begin_management()
            self._is_there.set()
            await self._stop.wait()
        finally:
            await self._live.stop()

    def _prepare(self, node: Node) -> None:
        manage_here(node, self._hear, self._programs, self._now_s)
        node.parts.get(ReaderPart).programs = node.parts.get(ActionsPart).programs = self._programs
        node.parts.get(Ticker).clock = lambda: int(self._loop.time() * 1e6)

    def _hear(self, said: dict[str, Any]) -> None:
        if said.get("serving"):
            self.url = said["serving"][0]
            self._is_served.set()
        elif "still" not in said:
            self._failure = AssertionError(str(said))
            self._is_served.set()

    def __enter__(self) -> Self:
        self._level = _LOGGER.level
        _LOGGER.setLevel(logging.INFO)
        _LOGGER.addHandler(self._log)
        self._thread.start()
        try:
            assert self._is_there.wait(_WAIT_S), "the node has started"
            if self._failure is None:
                assert self._is_served.wait(_WAIT_S), "the HTTP API is served"
            if self._failure is not None:
                raise self._failure
        except BaseException:
            self._end()
            raise
        self.api = self.client((KEY, SECRET))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.api.close()
        self._end()
        if self._failure is not None:
            raise self._failure

    def _end(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(_WAIT_S)
            assert not self._thread.is_alive(), "the node has stopped"
        _LOGGER.removeHandler(self._log)
        _LOGGER.setLevel(self._level)


def manage_here(
    node: Node, heard: Callable[[dict[str, Any]], None], programs: Programs, now_s: Callable[[], float] = time.time
) -> None:
    """Have a node that does not run yet serve its API in this process and event loop, from `begin_management` on.

    Args:
        heard: Called with what the API says to its node, such as where it is served.
    """
    node.parts.get(ManagementPart).make = lambda line, data_dir, alarms: _Management(
        line, data_dir, alarms, now_s, heard, programs
    )


class _Log(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


class _Management(ManagementProcess):
    """The program of the management process, without the process."""

    def __init__(
        self,
        line: bytes,
        data_dir: Path,
        alarms: Alarms,
        now_s: Callable[[], float],
        heard: Callable[[dict[str, Any]], None],
        programs: Programs,
    ) -> None:
        super().__init__(line, data_dir, alarms)
        self._heard = heard
        self._program = Program(read_settings_line(line), self.hear, now_s, programs)
        self._lines = asyncio.StreamReader()
        self._serving: asyncio.Task[None]

    @property
    def pid(self) -> int | None:
        """That of this process."""
        return os.getpid()

    def start(self) -> None:
        self._serving = asyncio.create_task(self._serve(), name="management")

    def hear(self, said: dict[str, Any]) -> None:
        super().hear(said)
        self._heard(said)

    def tell(self, line: bytes) -> None:
        self._lines.feed_data(line + b"\n")

    async def stop(self) -> None:
        self._lines.feed_eof()
        await self._serving

    async def _serve(self) -> None:
        try:
            await self._program.start()
            await self._program.follow(self._lines, asyncio.Event())
        except OSError as error:
            self.hear({"failed": str(error)})
        finally:
            await self._program.stop()
