"""The management process as a part of a node: started when the node is ready, watched, and given its settings."""

import asyncio
import json
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from heliograph.config.management_settings import settings_line
from heliograph.config.settings import Config
from heliograph.node.data_dir import DataDirectory
from heliograph.node.kernel import KernelPart
from heliograph.node.metrics.process import MANAGEMENT
from heliograph.observe.alarms import Alarms
from heliograph.observe.metric import Sample, plain
from heliograph.parts import Change, Part
from heliograph.processes.backoff import Backoff
from heliograph.processes.child_process import SupervisedProcess
from heliograph.processes.programs import PROGRAMS

_log = logging.getLogger(__name__)

ALARM: Final = "management_down"

_STOP_S: Final = 10.0
_BACKOFF: Final = Backoff(first_s=0.5, longest_s=30.0)
# Large pieces, as hashes of passwords and long pages take, go back to the system at once; threads share arenas.
_ALLOCATOR: Final = {"MALLOC_MMAP_THRESHOLD_": "262144", "MALLOC_ARENA_MAX": "2"}
_LINE_MAX: Final = 1 << 16  # of what it says


class ManagementProcess(SupervisedProcess):
    """The process that serves the HTTP API. Owned by the node, from `start` to `stop`, in its event loop.

    Args:
        line: Its settings, as `settings_line` has them.
    """

    def __init__(self, line: bytes, data_dir: Path, alarms: Alarms) -> None:
        super().__init__("management", _STOP_S, _BACKOFF)
        self._line = line
        self._data_dir = data_dir
        self._alarms = alarms
        self._failures = 0
        self._down = ""  # why it is not served, as the log has it
        self.served: Sequence[str] = ()  # where, as `http://127.0.0.1:18083`

    def start(self) -> None:
        self._watch()

    def tell(self, line: bytes) -> None:
        """Tell it other settings; one that waits for its next start is started at once."""
        self._line = line
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.write(line + b"\n")
        self._hurry()

    def statistics(self) -> dict[str, int]:
        return {
            "management.running": int(self.pid is not None),
            "management.restarts": self._restarts,
            "management.failures": self._failures,
        }

    async def _spawn(self) -> asyncio.subprocess.Process:
        process = await PROGRAMS.start(
            "heliograph.management",
            stdin=asyncio.subprocess.PIPE,  # its end is the end of this process, however that comes
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **_ALLOCATOR},
            limit=_LINE_MAX,
        )
        assert process.stdin is not None
        process.stdin.write(self._line + b"\n")
        return process

    async def _until_end(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            self.hear(json.loads(line))
        await process.wait()

    def hear(self, message: dict[str, Any]) -> None:
        """Log what it says, and raise or end the alarm."""
        self.served = message.get("serving") or message.get("still") or ()
        if "serving" in message:
            _log.info("the HTTP API is served at %s", ", ".join(message["serving"]) or "no address")
            self._alarms.deactivate(ALARM)
            self._down = ""
        else:
            self._tell_down(str(message.get("failed", message)), message.get("still", ()))

    def _failed(
        self, process: asyncio.subprocess.Process | None, problem: Exception | None, failures: int, pause_s: float
    ) -> None:
        self._failures += 1
        ended = (
            f"it ended with code {process.returncode}" if process is not None else f"it cannot be started: {problem}"
        )
        level = logging.DEBUG if self._down else logging.ERROR  # it is said once, and again when the reason is another
        _log.log(level, "the management process does not run: %s; it starts again in %.1f s", ended, pause_s)
        if ALARM not in {alarm.name for alarm in self._alarms.active()}:
            self._tell_down(ended)

    def _tell_down(self, why: str, still: Sequence[str] = ()) -> None:
        where = f"only where it was before, at {', '.join(still)}" if still else "at no address"
        text = f"the HTTP API is served {where}: {why}. Clients are not affected; mend what is named, and it is served"
        if text != self._down:
            _log.error("%s", text)
        self._down = text
        details = {"data_dir": str(self._data_dir)}
        if not self._alarms.update(ALARM, text, details):
            self._alarms.activate(ALARM, text, details)


class ManagementPart(Part):
    """The management process beside a node, which gets each change of its settings; owned by the node."""

    name = "management"
    metrics = MANAGEMENT
    needs = ("kernel", "control")
    roots = ("management", "dashboard", "api_key", "prometheus", "opentelemetry", "outbound")

    def __init__(
        self,
        config: Config,
        directory: DataDirectory,
        kernel: KernelPart,
        make: Callable[[bytes, Path, Alarms], ManagementProcess] = ManagementProcess,
    ) -> None:
        self._config = config
        self._directory = directory
        self._kernel = kernel
        self.make = make
        self._process: ManagementProcess | None = None
        self._is_begun = False
        self._ending: set[asyncio.Task[None]] = set()

    def begin(self) -> None:
        self._is_begun = True
        if self._config.management.enable:
            self._process = self.make(self._line(self._config), self._directory.path, self._kernel.alarms)
            self._process.start()

    async def check(self, new: Config) -> Change | None:
        if self._line(new) == self._line(self._config):
            return None
        return Change(lambda: self._use(new))

    async def stop(self) -> None:
        self._is_begun = False
        process, self._process = self._process, None
        await asyncio.gather(*self._ending, return_exceptions=True)
        if process is not None:
            await process.stop()

    def health(self) -> str:
        return "its process does not run" if self._process is not None and self._process.pid is None else ""

    def places(self) -> Sequence[str]:
        """Where the dashboard and the HTTP API are served."""
        is_there = self._process is not None and self._process.pid is not None
        return [f"dashboard {place}" for place in self._process.served] if self._process and is_there else []

    @property
    def coming_places(self) -> Sequence[str]:
        """Where they are to be served soon, once the node is ready; those whose ports the system chooses left out."""
        if not self._config.management.enable:
            return []
        listeners = self._config.dashboard.listeners
        found = [("http", listeners.http.bind), ("https", listeners.https.bind)]
        return [f"{scheme}://{bind}" for scheme, bind in found if bind is not None and bind.port]

    def samples(self) -> list[Sample]:
        return plain({} if self._process is None else self._process.statistics())

    def _use(self, new: Config) -> None:
        self._config = new
        if not self._is_begun:
            return
        if not new.management.enable and self._process is not None:
            process, self._process = self._process, None
            self._kernel.alarms.deactivate(ALARM)
            task = asyncio.get_running_loop().create_task(process.stop(), name="management-ends")
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)
        elif new.management.enable and self._process is None:
            self.begin()
        elif self._process is not None:
            self._process.tell(self._line(new))

    def _line(self, config: Config) -> bytes:
        return settings_line(config, self._directory.path)
