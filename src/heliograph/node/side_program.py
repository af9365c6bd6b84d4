"""A program that runs beside a node while it is needed: it gets a file of settings, and a line when that has changed.

The action runner and the process of sources are such. It is started again when it dies, with a pause that doubles and,
after some failures, an alarm.
"""

import asyncio
import json
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from heliograph.observe.alarms import Alarms
from heliograph.observe.side_log import LOG_BYTES_MAX, put_aside
from heliograph.processes.backoff import Backoff
from heliograph.processes.child_process import SupervisedProcess
from heliograph.processes.programs import PROGRAMS
from heliograph.storage.durable_files import write_durably

_log = logging.getLogger(__name__)

SETTINGS_FILE: Final = "settings.json"
_STATUS_FILE: Final = "status.json"  # the program's, if it writes one
_STOP_S: Final = 30.0
_BACKOFF: Final = Backoff(first_s=0.5, longest_s=30.0)
_FAILURES_BEFORE_ALARM: Final = 3
# A program that does not read its input looks by itself now and then.
_UNREAD_BYTES_MAX: Final = 64 * 1024
# With bytes that it is given before them, words find room all the same.
_UNREAD_BYTES_WITH_GIVEN_MAX: Final = 4 * 1024 * 1024


@dataclass(frozen=True)
class SideProgram:
    """Which program it is.

    Attributes:
        module: What runs, as `python -m MODULE FILE`.
        name: Of its process and log, as `action-runner`.
        title: The same for people, as `the action runner`.
        alarm: Active while it cannot run.
        meanwhile: What happens until it runs again, for people.
        environment: Variables that it gets beside ours.
    """

    module: str
    name: str
    title: str
    log: str
    alarm: str
    meanwhile: str
    environment: Mapping[str, str]


class SideProcess(SupervisedProcess):
    """The process of a program; owned by its `SideRun`, from `start` to `stop`, in its event loop.

    Args:
        ended: Called when it has ended without being asked to.
    """

    def __init__(
        self, program: SideProgram, directory: Path, alarms: Alarms, ended: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__(program.name, _STOP_S, _BACKOFF)
        self._program = program
        self._directory = directory
        self._alarms = alarms
        self._ended = ended
        self.log_file = directory / program.log

    def start(self) -> None:
        self._watch()

    @property
    def status_file(self) -> Path:
        return self._directory / _STATUS_FILE

    @property
    def restarts(self) -> int:
        return self._restarts

    def tell(self, *words: str) -> None:
        """Write a line to its input, if it runs and reads."""
        self._write(f"{' '.join(words)}\n".encode(), _UNREAD_BYTES_WITH_GIVEN_MAX)

    def give(self, data: bytes) -> bool:
        """Write up to some megabytes to its input, if it runs and has read what it was given before; whether it did."""
        return self._write(data, _UNREAD_BYTES_MAX)

    def _write(self, data: bytes, unread_max: int) -> bool:
        process = self._process
        if process is None or process.stdin is None or process.returncode is not None:
            return False
        if process.stdin.transport.get_write_buffer_size() > unread_max:
            return False
        process.stdin.write(data)
        return True

    def look_again(self) -> None:
        """Try again at once what waits after a failure."""
        self.tell("again")

    async def _spawn(self) -> asyncio.subprocess.Process:
        if self.log_file.exists() and self.log_file.stat().st_size > LOG_BYTES_MAX:
            put_aside(self.log_file)  # of a program that logs little else, or not by `log_to_stderr`
        with self.log_file.open("ab") as log:
            return await PROGRAMS.start(
                self._program.module,
                str(self._directory / SETTINGS_FILE),
                stdin=asyncio.subprocess.PIPE,  # its end is the end of this process, however that comes
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **self._program.environment},
            )

    def _is_steady(self) -> None:
        self._alarms.deactivate(self._program.alarm)

    def _failed(
        self, process: asyncio.subprocess.Process | None, problem: Exception | None, failures: int, pause_s: float
    ) -> None:
        self._ended()
        what = f"ended with code {process.returncode}" if process is not None else f"cannot be started: {problem}"
        text = f"{self._program.title} {what}; its log {self.log_file} may tell why, and {self._program.meanwhile}"
        _log.error("%s; it starts again in %.1f s", text, pause_s)
        if failures >= _FAILURES_BEFORE_ALARM:
            self._alarms.activate(self._program.alarm, text, {"log": str(self.log_file)}, degrades=False)

    def __repr__(self) -> str:
        return f"SideProcess({self._program.name}, pid {self.pid}, {self._restarts} restarts)"


class SideRun:
    """Runs a program while there is something for it to do; owned by the part of the node whose program it is.

    Args:
        ended: Called when the process is gone, whatever the reason.
    """

    def __init__(
        self,
        program: SideProgram,
        directory: Path,
        alarms: Callable[[], Alarms],
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        self._program = program
        self._directory = directory
        self._alarms = alarms
        self._ended = ended
        self._fixed: object = None
        self._changing: asyncio.Task[None] | None = None
        self.process: SideProcess | None = None

    def use(self, document: Mapping[str, Any] | None, fixed: object = None, is_last: bool = False) -> None:
        """Start, end or notify the process; changes come one after another.

        Args:
            document: Its settings, which may hold secrets; None if it is not needed.
            fixed: What of them a process that runs cannot change.
            is_last: Whether these are only for one that runs, which reads them at its end.
        """
        change = self._change(document, fixed, is_last, self._changing)
        self._changing = asyncio.get_running_loop().create_task(change, name=f"{self._program.name}-changed")

    async def stop(self) -> None:
        if self._changing is not None:
            await asyncio.wait([self._changing])
        await self._end()

    @property
    def pid(self) -> int | None:
        return None if self.process is None else self.process.pid

    @property
    def restarts(self) -> int:
        return 0 if self.process is None else self.process.restarts

    def health(self) -> str:
        return "its process does not run" if self.process is not None and self.process.pid is None else ""

    async def _change(
        self, document: Mapping[str, Any] | None, fixed: object, is_last: bool, earlier: asyncio.Task[None] | None
    ) -> None:
        if earlier is not None:
            await asyncio.wait([earlier])
        if self.process is not None and (document is None or fixed != self._fixed):
            await self._end()
        if document is None or (is_last and self.process is None):
            return
        self._fixed = fixed
        try:
            await asyncio.to_thread(self._write, document)
        except OSError as error:
            _log.error("%s does not learn its settings: %s", self._program.title, error)
            if not is_last:
                return
        if is_last:
            await self._end()
        elif self.process is None:
            self.process = SideProcess(self._program, self._directory, self._alarms(), self._ended)
            self.process.start()
        else:
            self.process.tell("settings")

    async def _end(self) -> None:
        process, self.process = self.process, None
        if process is not None:
            await process.stop()
            self._alarms().deactivate(self._program.alarm)
            self._ended()

    def _write(self, document: Mapping[str, Any]) -> None:
        """Only our user may read it."""
        self._directory.mkdir(parents=True, exist_ok=True)
        write_durably(self._directory / SETTINGS_FILE, json.dumps(document, indent=1).encode(), 0o600)

    def __repr__(self) -> str:
        return f"SideRun({self._program.name}, {self.process})"
