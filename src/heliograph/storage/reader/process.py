"""Running the reader process beside the broker: start, restart when it dies, stop."""

import asyncio
import contextlib
import json
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from heliograph.observe.alarms import Alarms
from heliograph.processes.backoff import Backoff
from heliograph.processes.child_process import SupervisedProcess
from heliograph.processes.programs import PROGRAMS, Programs
from heliograph.storage.errors import StorageError
from heliograph.storage.reader.security import ReaderSecurity
from heliograph.storage.reader.user_rights import Rights, line_of

_log = logging.getLogger(__name__)

ALARM: Final = "storage_reader_down"

_START_S: Final = 30.0
_STOP_S: Final = 5.0
_BACKOFF: Final = Backoff(first_s=0.5, longest_s=30.0)


OnDamage = Callable[[dict[str, object]], object]


class ReaderStartError(StorageError):
    """The reader process did not begin to serve."""

    code = "storage_reader_failed"
    advice = (
        "Mend what is named, or set durable_storage.flight.bind to a free address, or durable_storage.flight.enable to "
        "false."
    )


class ReaderProcess(SupervisedProcess):
    """The reader process of one node. Owned by the node, from `start` to `stop`, in its event loop.

    Args:
        bind: HOST:PORT; with port 0 the first start takes a free port and later ones keep it.
        on_restart: Called after the process died and runs again.
        security: Returns what the process must know about its callers; called at each start.
        launched: What `launch_reader` has started for it.
        rights: Returns the rights of users that tokens name; called at each start.
    """

    def __init__(
        self,
        data_dir: Path,
        bind: str,
        on_restart: Callable[[], None] | None = None,
        security: Callable[[], ReaderSecurity] = ReaderSecurity,
        on_damage: OnDamage = lambda damage: None,
        alarms: Alarms | None = None,
        launched: asyncio.subprocess.Process | None = None,
        rights: Callable[[], Mapping[str, Rights | None]] = dict,
        programs: Programs = PROGRAMS,
    ) -> None:
        super().__init__("storage-reader", _STOP_S, _BACKOFF)
        self._data_dir = data_dir
        self._bind = bind
        self._on_restart = on_restart
        self._security = security
        self._alarms = alarms
        self._on_damage = on_damage
        self._launched = launched
        self._rights = rights
        self._programs = programs

    @property
    def bind(self) -> str:
        return self._bind

    async def launch(self) -> None:
        """Start the process ahead of `start`, so that it loads its modules meanwhile; it touches no file yet."""
        if self._launched is None:
            self._launched = await launch_reader(self._data_dir, self._bind, self._programs)

    async def stop(self) -> None:
        await super().stop()
        launched, self._launched = self._launched, None
        if launched is not None:
            await self._end(launched)

    async def start(self) -> None:
        """Start it, unless it is launched, and wait until it serves.

        Raises:
            ReaderStartError: It does not serve.
        """
        self._process = await self._spawn()
        self._watch()

    def begin(self) -> None:
        """Make it serve as soon as it can, tried again and again; `launch` may have started it already."""
        self._watch()

    def statistics(self) -> dict[str, int]:
        return {"running": int(self.pid is not None), "restarts": self._restarts}

    async def _spawn(self) -> asyncio.subprocess.Process:
        settings = self._security().to_json()
        launched, self._launched = self._launched, None
        process = launched or await launch_reader(self._data_dir, self._bind, self._programs)
        try:
            _tell(process, settings)
            line = await asyncio.wait_for(_first_line(process), _START_S)
        except TimeoutError:
            line = f"failed it said nothing within {_START_S:.0f} s"
        except BaseException:
            await self._end(process)
            raise
        word, _, rest = line.partition(" ")
        if word != "ready":
            await self._end(process)
            problem = rest or f"it ended with code {process.returncode}"
            raise ReaderStartError(f"the storage reader: {problem}", database="")
        self._bind = rest
        if rights := self._rights():
            _tell(process, line_of(rights))
        return process

    def tell_rights(self) -> None:
        """The rights of users have changed: have it use those of now, if it runs; else it gets them at its start."""
        if self._process is not None and self._process.returncode is None:
            _tell(self._process, line_of(self._rights()))

    def _runs(self, process: asyncio.subprocess.Process, is_first: bool) -> None:
        _log.info("the storage reader serves again at %s, as process %s", self._bind, process.pid)
        if self._alarms is not None:
            self._alarms.deactivate(ALARM)
        if self._on_restart is not None:
            self._on_restart()

    def _failed(
        self, process: asyncio.subprocess.Process | None, problem: Exception | None, failures: int, pause_s: float
    ) -> None:
        if process is None:
            _log.error("%s; the next attempt is in %.1f s", problem, pause_s)
            return
        text = (
            f"the storage reader (process {process.pid}) ended with code {process.returncode}; it is started again in "
            f"{pause_s:.1f} s, until then pipelines and other readers wait; MQTT clients notice nothing"
        )
        _log.warning("%s", text)
        if self._alarms is not None:
            self._alarms.activate(ALARM, text, {"pid": process.pid, "exit_code": process.returncode})

    async def _until_end(self, process: asyncio.subprocess.Process) -> None:
        while process.stdout is not None:
            try:
                line = (await process.stdout.readline()).decode(errors="replace")
            except ValueError:  # longer than any that it writes
                continue
            if not line:
                break
            word, _, rest = line.partition(" ")
            if word == "damaged":
                self._on_damage(json.loads(rest))
        await process.wait()

    def __repr__(self) -> str:
        return f"ReaderProcess({self._bind}, pid {self.pid}, {self._restarts} restarts)"


async def launch_reader(data_dir: Path, bind: str, programs: Programs = PROGRAMS) -> asyncio.subprocess.Process:
    """Start the process of a reader: it loads its modules, and touches no file until it gets its settings."""
    return await programs.start(
        *("heliograph.storage.reader", "--watch-stdin", "--settings-stdin"),
        *("--data-dir", str(data_dir), "--bind", bind),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        start_new_session=True,  # Ctrl-C in a terminal is for the node, which ends it through its standard input
    )


async def give_up(launched: asyncio.subprocess.Process) -> None:
    """Stop a process that was launched, unless its reader has stopped it."""
    if launched.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            launched.terminate()
        await launched.wait()


def _tell(process: asyncio.subprocess.Process, line: str) -> None:
    """Write a line, which is much shorter than what a pipe holds, to its standard input."""
    if process.stdin is not None:
        process.stdin.write(line.encode() + b"\n")


async def _first_line(process: asyncio.subprocess.Process) -> str:
    if process.stdout is None:
        return ""
    return (await process.stdout.readline()).decode(errors="replace").strip()
