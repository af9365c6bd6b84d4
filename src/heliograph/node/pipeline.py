"""The pipeline that a node runs beside itself: start, restart when it dies, stop.

What the pipeline does is `heliograph.pipeline`'s.

It is a process of its own, which this one knows by its command line only: a broker never loads Spark.
"""

import asyncio
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Final

from heliograph.config import Config, PipelineConfig
from heliograph.node.data_dir import DataDirectory
from heliograph.node.kernel import KernelPart
from heliograph.node.listeners import ListenersPart
from heliograph.node.metrics.process import PIPELINE
from heliograph.node.reader import ReaderPart
from heliograph.observe.alarms import Alarms
from heliograph.observe.metric import Sample, plain
from heliograph.parts import Change, Part
from heliograph.processes.backoff import Backoff
from heliograph.processes.child_process import SupervisedProcess

_log = logging.getLogger(__name__)

ALARM: Final = "pipeline_failed"

_STATUS_FILE: Final = "status.json"  # in the checkpoint; the driver's
_LOG_BYTES_MAX: Final = 16 * 1024 * 1024
_TOLD_BYTES: Final = 2_000
_TOKEN_VARIABLE: Final = "HELIOGRAPH_PIPELINE_TOKEN"
_FAILURES_BEFORE_ALARM: Final = 3
_MISTAKE: Final = 2  # the exit code for what does not get better by itself: the file, or an option
_STOP_S: Final = 60.0
_LONGEST_PAUSE_S: Final = 60.0
_ANY: Final = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]", "::": "[::1]"}


class PipelineProcess(SupervisedProcess):
    """The pipeline process of one node. Owned by the node, from `start` to `stop`, in its event loop.

    Args:
        config: The settings.
        data_dir: The node's data directory.
        endpoint: HOST:PORT of the storage reader.
        mqtt: HOST:PORT of a listener, for the sinks that publish.
        alarms: Where an alarm stands while the pipeline fails again and again; it ends when one has run for a minute.
        first_pause_s: Seconds before the first restart; they double with each failure in a row, up to a minute.
    """

    def __init__(
        self,
        config: PipelineConfig,
        data_dir: Path,
        endpoint: str,
        mqtt: str,
        alarms: Alarms,
        first_pause_s: float = 1.0,
    ) -> None:
        super().__init__("pipeline", _STOP_S, Backoff(first_pause_s, _LONGEST_PAUSE_S))
        self._config = config
        self._directory = data_dir / "pipeline"
        self._endpoint = endpoint
        self._mqtt = mqtt
        self._alarms = alarms
        self._failures = 0
        self.log_file = self._directory / "pipeline.log"

    def start(self) -> None:
        """Start it; the node does not wait for Spark."""
        self._watch()

    @property
    def file(self) -> str:
        """Its pipeline file."""
        return self._config.file

    @property
    def status_file(self) -> Path:
        """Where its driver writes what its queries do."""
        return Path(self._checkpoint) / _STATUS_FILE

    @property
    def _checkpoint(self) -> str:
        return self._config.checkpoint or str(self._directory / "checkpoint")

    def statistics(self) -> dict[str, int]:
        """Counts for metrics."""
        return {
            "pipeline.running": int(self.pid is not None),
            "pipeline.restarts": self._restarts,
            "pipeline.failures": self._failures,
        }

    def command(self) -> Sequence[str]:
        """The command line of the process."""
        config = self._config
        command = [sys.executable, "-m", "heliograph.cli.main", "pipeline", "run", config.file, "--watch-stdin"]
        command += ["--checkpoint", self._checkpoint]
        command += ["--output", config.output or str(self._directory / "output")]
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
        told = f"the pipeline ended with code {code}; its log {self.log_file} ends: {self._last_words()}"
        if process is None:
            told = f"the pipeline cannot be started: {problem}"
        _log.error("%s; it starts again in %.0f s", told, pause_s)
        if failures >= _FAILURES_BEFORE_ALARM or code == _MISTAKE:
            self._alarms.activate(ALARM, told, {"code": code, "log": str(self.log_file)})

    async def _spawn(self) -> asyncio.subprocess.Process:
        self._directory.mkdir(parents=True, exist_ok=True)
        if self.log_file.exists() and self.log_file.stat().st_size > _LOG_BYTES_MAX:
            self.log_file.replace(self.log_file.with_suffix(".log.1"))
        with self.log_file.open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *self.command(),
                stdin=asyncio.subprocess.PIPE,  # its end is the end of this process, however that comes
                stdout=log,
                stderr=log,
                env=self._environment(),
            )

    def _environment(self) -> dict[str, str]:
        token = self._config.token.text  # not for the command line, which other users see
        return {**os.environ, "PYTHONUNBUFFERED": "1"} | ({_TOKEN_VARIABLE: token} if token else {})

    def _last_words(self) -> str:
        try:
            with self.log_file.open("rb") as log:
                log.seek(max(0, self.log_file.stat().st_size - _TOLD_BYTES))
                lines = log.read().decode(errors="replace").strip().splitlines()
        except OSError as error:  # it was removed
            return str(error)
        return lines[-1] if lines else "nothing"

    def __repr__(self) -> str:
        return f"PipelineProcess(pid {self.pid}, {self._restarts} restarts)"


class PipelineRefusedError(Exception):
    """A pipeline cannot be run as the new settings say."""

    code: ClassVar[str] = "pipeline_refused"


class PipelinePart(Part):
    """The pipeline beside a node, which publishes to the first of its TCP listeners; owned by the node.

    Where its command line changes, its process ends in order and another one goes on at the checkpoint.
    """

    name = "pipeline"
    metrics = PIPELINE
    needs = ("kernel", "reader", "listeners")
    roots = ("pipeline",)

    def __init__(
        self,
        config: Config,
        directory: DataDirectory,
        kernel: KernelPart,
        reader: ReaderPart,
        listeners: ListenersPart,
    ) -> None:
        self._config = config
        self._directory = directory
        self._kernel = kernel
        self._reader = reader
        self._listeners = listeners
        self._process: PipelineProcess | None = None
        self._replacing: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start it; the node does not wait for Spark."""
        if _is_wanted(self._config):
            self._process = self._make(self._config)
            self._process.start()

    async def check(self, new: Config) -> Change | None:
        """Another pipeline, or one that finds reader and listener at other places.

        Raises:
            PipelineRefusedError: Its file is not valid.
        """
        if _is_wanted(new) and new.pipeline.file != (self._config.pipeline.file if self._process is not None else ""):
            await validate(Path(new.pipeline.file))
        return Change(lambda: self._use(new)) if self._process is not None or _is_wanted(new) else None

    def _use(self, new: Config) -> None:
        settings, before = self._config.pipeline, self._process
        self._config = new
        process = self._make(new) if _is_wanted(new) else None
        is_same = process is not None and before is not None and process.command() == before.command()
        if is_same and new.pipeline == settings:
            return
        self._process = process
        replace = self._replace(before, process, self._replacing)
        self._replacing = asyncio.get_running_loop().create_task(replace, name="pipeline-replaced")

    async def _replace(
        self, before: PipelineProcess | None, process: PipelineProcess | None, earlier: asyncio.Task[None] | None
    ) -> None:
        """Have a process take the place of another, when that has left the checkpoint."""
        if earlier is not None:
            await asyncio.wait([earlier])
        if before is not None:
            await before.stop()
            self._kernel.alarms.deactivate(ALARM)  # another one has yet to fail
        if process is not None and process is self._process:
            process.start()

    def _make(self, config: Config) -> PipelineProcess:
        addresses = [one.address.partition("://")[2] for one in self._listeners.listeners if one.kind == "tcp"]
        mqtt = _reachable(addresses[0]) if addresses else "127.0.0.1:1883"
        endpoint = _reachable(self._reader.bind)
        if config.durable_storage.flight.tls.enable:
            endpoint = f"grpc+tls://{endpoint}"
        return PipelineProcess(config.pipeline, self._directory.path, endpoint, mqtt, self._kernel.alarms)

    @property
    def process(self) -> PipelineProcess | None:
        """Its process; None before the start."""
        return self._process

    async def stop(self) -> None:
        """Have it end in order."""
        process, self._process = self._process, None
        if self._replacing is not None:
            await asyncio.wait([self._replacing])
        if process is not None:
            await process.stop()

    def health(self) -> str:
        """Whether the process runs."""
        return "its process does not run" if self._process is not None and self._process.pid is None else ""

    def samples(self) -> list[Sample]:
        """Counts named `pipeline.*`."""
        return plain({} if self._process is None else self._process.statistics())


def _reachable(address: str) -> str:
    """An address of this machine for one that stands for all of its interfaces."""
    host, _, port = address.rpartition(":")
    return f"{_ANY.get(host, host)}:{port}"


def _is_wanted(config: Config) -> bool:
    return config.pipeline.enable and config.durable_storage.flight.enable


async def validate(file: Path) -> None:
    """See whether a pipeline's file is valid, in a process of its own, since a broker loads nothing of the pipeline.

    Raises:
        PipelineRefusedError: It is not.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "heliograph.cli.main", "pipeline", "validate", str(file), "--no-spark"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    _, told = await process.communicate()
    if process.returncode:
        raise PipelineRefusedError(f"pipeline.file: {told.decode(errors='replace').strip()}")
