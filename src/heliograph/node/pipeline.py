"""The pipeline that a node runs beside itself: start, restart when it dies, stop.

What the pipeline does is `heliograph.pipeline`'s.

It is a process of its own, which this one knows by its command line only: a broker never loads Spark.
"""

import asyncio
import contextlib
import logging
import os
import signal
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar, Final

from heliograph.config.actions.roots import all_actions
from heliograph.config.pipeline import PipelineConfig
from heliograph.config.settings import Config
from heliograph.node.data_dir import DataDirectory
from heliograph.node.databases import Databases
from heliograph.node.kernel import KernelPart
from heliograph.node.listeners import ListenersPart
from heliograph.node.metrics.process import PIPELINE
from heliograph.node.reader import ReaderPart
from heliograph.observe.alarms import Alarms
from heliograph.observe.metric import Sample, plain
from heliograph.parts import Change, Part
from heliograph.processes.backoff import Backoff
from heliograph.processes.child_process import SupervisedProcess
from heliograph.processes.programs import PROGRAMS
from heliograph.settings.outbound import OutboundConfig
from heliograph.settings.secrets import SecretError
from heliograph.storage.durable_files import write_durably

_log = logging.getLogger(__name__)

ALARM: Final = "pipeline_failed"

DIRECTORY: Final = "pipeline"
"""What the pipeline and the action runner keep in the data directory."""

ACTIONS_FILE: Final = "actions.hocon"
"""The file that a node makes of its actions and of `outbound`, in the directory of its pipeline."""

COMMAND: Final = ("heliograph.cli.main", "pipeline")
"""The program of `heliograph pipeline` and its first word."""

_STATUS_FILE: Final = "status.json"  # in the checkpoint; the driver's
_LOG_BYTES_MAX: Final = 16 * 1024 * 1024
_SHOWN_BYTES: Final = 2_000
_TOKEN_VARIABLE: Final = "HELIOGRAPH_PIPELINE_TOKEN"
_FAILURES_BEFORE_ALARM: Final = 3  # in a row, or
_SEVERAL_WITHIN_S: Final = 600.0  # within this time, whatever was between them
_MISTAKE: Final = 2  # the exit code for what does not get better by itself: the file, or an option
_STOP_S: Final = 60.0
_LONGEST_PAUSE_S: Final = 60.0
_ANY: Final = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]", "::": "[::1]"}


class PipelineProcess(SupervisedProcess):
    """The pipeline process of one node. Owned by the node, from `start` to `stop`, in its event loop.

    Args:
        endpoint: HOST:PORT of the storage reader.
        mqtt: HOST:PORT of a listener, for the sinks that publish.
        alarms: An alarm stands while the pipeline fails again and again, until one has run for a minute.
        first_pause_s: Seconds before the first restart; they double with each failure in a row, up to a minute.
        clock_s: Seconds that only grow.
    """

    def __init__(
        self,
        config: PipelineConfig,
        data_dir: Path,
        endpoint: str,
        mqtt: str,
        alarms: Alarms,
        first_pause_s: float = 1.0,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__("pipeline", _STOP_S, Backoff(first_pause_s, _LONGEST_PAUSE_S))
        self._config = config
        self._data_dir = data_dir
        self._directory = data_dir / DIRECTORY
        self._endpoint = endpoint
        self._mqtt = mqtt
        self._alarms = alarms
        self._failures = 0
        self._clock_s = clock_s
        self._failed_at: deque[float] = deque(maxlen=_FAILURES_BEFORE_ALARM)
        self.log_file = self._directory / "pipeline.log"

    def start(self) -> None:
        self._watch()

    def look_again(self) -> None:
        """Start again at once what waits after a failure; its driver must run, as its status says."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGHUP)

    @property
    def file(self) -> str:
        """Of several files, that of the operator."""
        return self.files[0]

    @property
    def files(self) -> list[str]:
        """The operator's, and that of the actions."""
        return [*filter(None, [self._config.file]), str(self._directory / ACTIONS_FILE)]

    @property
    def status_file(self) -> Path:
        """Its driver writes there what its queries do."""
        return Path(checkpoint_of(self._config, self._data_dir)) / _STATUS_FILE

    def statistics(self) -> dict[str, int]:
        return {
            "pipeline.running": int(self.pid is not None),
            "pipeline.restarts": self._restarts,
            "pipeline.failures": self._failures,
        }

    def command(self) -> Sequence[str]:
        config = self._config
        command = [*COMMAND, "run", *file_arguments(self.files), "--watch-stdin"]
        command += ["--checkpoint", checkpoint_of(config, self._data_dir)]
        command += ["--output", output_of(config, self._data_dir)]
        command += ["--endpoint", self._endpoint, "--mqtt", self._mqtt, "--master", config.master]
        command += ["--trigger", f"{config.trigger * 1000:.0f}ms", "--start", config.start]
        if config.token.file is not None:
            command += ["--token-file", str(config.token.file)]
        if config.tls_ca:
            command += ["--tls-ca", config.tls_ca]
        for name, value in config.spark_conf:
            command += ["--conf", f"{name}={value}"]
        return command

    def _is_steady(self) -> None:
        self._alarms.deactivate(ALARM)

    def _failed(
        self, process: asyncio.subprocess.Process | None, problem: Exception | None, failures: int, pause_s: float
    ) -> None:
        self._failures += 1
        code = None if process is None else process.returncode
        text = f"the pipeline ended with code {code}; its log {self.log_file} ends: {self._last_words()}"
        if process is None:
            text = f"the pipeline cannot be started: {problem}"
        _log.error("%s; it starts again in %.0f s", text, pause_s)
        self._failed_at.append(self._clock_s())
        several = self._failed_at.maxlen == len(self._failed_at)
        is_often = several and self._failed_at[-1] - self._failed_at[0] <= _SEVERAL_WITHIN_S
        if failures >= _FAILURES_BEFORE_ALARM or is_often or code == _MISTAKE:
            self._alarms.activate(ALARM, text, {"code": code, "log": str(self.log_file)})

    async def _spawn(self) -> asyncio.subprocess.Process:
        self._directory.mkdir(parents=True, exist_ok=True)
        if self.log_file.exists() and self.log_file.stat().st_size > _LOG_BYTES_MAX:
            self.log_file.replace(self.log_file.with_suffix(".log.1"))
        with self.log_file.open("ab") as log:
            return await PROGRAMS.start(
                *self.command(),
                stdin=asyncio.subprocess.PIPE,  # its end is the end of this process, however that comes
                stdout=log,
                stderr=log,
                env=self.environment(),
            )

    def environment(self) -> dict[str, str]:
        """It may have a secret."""
        token = self._config.token.text  # not for the command line, which other users see
        return {**os.environ, "PYTHONUNBUFFERED": "1"} | ({_TOKEN_VARIABLE: token} if token else {})

    def _last_words(self) -> str:
        try:
            with self.log_file.open("rb") as log:
                log.seek(max(0, self.log_file.stat().st_size - _SHOWN_BYTES))
                lines = log.read().decode(errors="replace").strip().splitlines()
        except OSError as error:  # it was removed
            return str(error)
        return lines[-1] if lines else "nothing"

    def __repr__(self) -> str:
        return f"PipelineProcess(pid {self.pid}, {self._restarts} restarts)"


class PipelineRefusedError(Exception):
    code: ClassVar[str] = "pipeline_refused"


class PipelinePart(Part):
    """The pipeline beside a node, which publishes to the first of its TCP listeners; owned by the node.

    Where its command line changes, its process ends in order and another one goes on at the checkpoint.
    """

    name = "pipeline"
    metrics = PIPELINE
    needs = ("kernel", "databases", "reader", "listeners")
    roots = ("pipeline", "actions", "connectors", "rule_engine", "outbound")

    def __init__(
        self,
        config: Config,
        directory: DataDirectory,
        kernel: KernelPart,
        databases: Databases,
        reader: ReaderPart,
        listeners: ListenersPart,
    ) -> None:
        self._config = config
        self._directory = directory
        self._kernel = kernel
        self._databases = databases
        self._reader = reader
        self._listeners = listeners
        self._actions = ""
        self._process: PipelineProcess | None = None
        self._replacing: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """The node does not wait for Spark."""
        self._actions = self._actions_text(self._config)
        if self._is_wanted(self._config, self._actions):
            self._process = self._make(self._config)
            with contextlib.suppress(OSError):  # the process cannot be started then either, and says so
                await asyncio.to_thread(self._write, self._actions)
            self._process.start()

    async def check(self, new: Config) -> Change | None:
        """`PipelineRefusedError` without Spark, or if its file, or what is made of the actions, is not valid."""
        if new.pipeline.enable and not self._config.pipeline.enable and find_spec("pyspark") is None:
            raise PipelineRefusedError(
                "pipeline.enable = true: pyspark is not installed: pip install 'heliograph[pipeline,sinks]'"
            )
        actions = self._actions_text(new)
        is_wanted = self._is_wanted(new, actions)
        if not is_wanted and self._process is None:
            return Change(lambda: self._use(new, actions)) if actions != self._actions else None
        was = (self._config.pipeline.file, self._actions) if self._process is not None else ("", "")
        if is_wanted and (new.pipeline.file, actions) != was:
            await self._validate(new.pipeline.file, actions)
        return Change(lambda: self._use(new, actions))

    async def _validate(self, file: str, actions: str) -> None:
        files = [file] if file else []
        with tempfile.TemporaryDirectory(prefix="heliograph-actions-") as scratch:  # only this user may enter it
            made = Path(scratch) / ACTIONS_FILE
            made.write_text(actions)
            try:
                await validate(*files, str(made))
            except PipelineRefusedError as error:
                raise PipelineRefusedError(str(error).replace(str(made), ACTIONS_FILE)) from None

    def _use(self, new: Config, actions: str) -> None:
        settings, before = self._config.pipeline, self._process
        is_other_file, self._config, self._actions = actions != self._actions, new, actions
        process = self._make(new) if self._is_wanted(new, actions) else None
        is_same = process is not None and before is not None and process.command() == before.command()
        if process is before is None or (is_same and new.pipeline == settings and not is_other_file):
            return
        if is_same and new.pipeline == settings:
            process = before
        self._process = process
        replace = self._replace(before, process, self._replacing, actions)
        self._replacing = asyncio.get_running_loop().create_task(replace, name="pipeline-replaced")

    async def _replace(
        self,
        before: PipelineProcess | None,
        process: PipelineProcess | None,
        earlier: asyncio.Task[None] | None,
        actions: str,
    ) -> None:
        """Start a process when another one has left the checkpoint; or take over another file."""
        if earlier is not None:
            await asyncio.wait([earlier])
        if before is not None and before is not process:
            await before.stop()
            self._kernel.alarms.deactivate(ALARM)  # another one has yet to fail
        try:
            await asyncio.to_thread(self._write, actions)
        except OSError as error:
            _log.error("the pipeline does not learn what its actions are now: %s", error)
        if process is not None and process is self._process and process is not before:
            process.start()  # the same one looks at its files by itself

    def _write(self, actions: str) -> None:
        """It may hold secrets."""
        write_durably(self._directory.path / DIRECTORY / ACTIONS_FILE, actions.encode(), 0o600)

    @staticmethod
    def _is_wanted(config: Config, actions: str) -> bool:
        is_on = config.pipeline.enable and config.durable_storage.flight.enable
        return is_on and bool(config.pipeline.file or actions)

    def _make(self, config: Config) -> PipelineProcess:
        endpoint, mqtt = endpoint_of(config, self._reader), mqtt_of(self._listeners)
        return PipelineProcess(config.pipeline, self._directory.path, endpoint, mqtt, self._kernel.alarms)

    @property
    def process(self) -> PipelineProcess | None:
        return self._process

    async def stop(self) -> None:
        process, self._process = self._process, None
        if self._replacing is not None:
            await asyncio.wait([self._replacing])
        if process is not None:
            await process.stop()

    def _actions_text(self, config: Config) -> str:
        is_bounded = bool(config.pipeline.file) and config.outbound != OutboundConfig()
        if next(all_actions(config.actions), None) is None and not is_bounded:
            return ""
        from heliograph.actions.pipeline_file import actions_file  # what a node without actions need not load

        try:
            made = actions_file(config, self._databases.short_site)
        except SecretError as error:
            raise PipelineRefusedError(str(error)) from error
        return made.text if made.actions or is_bounded else ""

    def health(self) -> str:
        return "its process does not run" if self._process is not None and self._process.pid is None else ""

    def samples(self) -> list[Sample]:
        return plain({} if self._process is None else self._process.statistics())


def checkpoint_of(config: PipelineConfig, data_dir: Path) -> str:
    """Where queries, and actions without Spark, keep their places."""
    return config.checkpoint or str(data_dir / DIRECTORY / "checkpoint")


def output_of(config: PipelineConfig, data_dir: Path) -> str:
    """Where their tables and dead letters are."""
    return config.output or str(data_dir / DIRECTORY / "output")


def endpoint_of(config: Config, reader: ReaderPart) -> str:
    """Where processes of this machine reach the storage reader."""
    endpoint = _reachable(reader.bind)
    return f"grpc+tls://{endpoint}" if config.durable_storage.flight.tls.enable else endpoint


def mqtt_of(listeners: ListenersPart) -> str:
    """HOST:PORT where processes of this machine reach the first TCP listener."""
    addresses = [one.address.partition("://")[2] for one in listeners.listeners if one.kind == "tcp"]
    return _reachable(addresses[0]) if addresses else "127.0.0.1:1883"


def _reachable(address: str) -> str:
    """An address of this machine for one that stands for all of its interfaces."""
    host, _, port = address.rpartition(":")
    return f"{_ANY.get(host, host)}:{port}"


def file_arguments(files: Sequence[str]) -> list[str]:
    return [files[0], *(f"--actions={file}" for file in files[1:])]


async def validate(*files: str) -> None:
    """Checked in a process of its own, since a broker loads nothing of the pipeline; raises `PipelineRefusedError`."""
    fault = await PROGRAMS.fault(*COMMAND, "validate", *file_arguments(files), "--no-spark", "--java")
    if fault:
        raise PipelineRefusedError(f"the pipeline: {fault}")
