"""The action runner beside a node: started while it has actions to run, woken by commits, restarted when it dies.

What it does is `heliograph.pipeline.runner`'s. It is a process of its own, which this one knows by its command line
only.
"""

import asyncio
import contextlib
import json
import logging
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from heliograph.config.actions.roots import all_actions
from heliograph.config.settings import Config
from heliograph.node.data_dir import DataDirectory
from heliograph.node.kernel import KernelPart
from heliograph.node.listeners import ListenersPart
from heliograph.node.pipeline import DIRECTORY, PipelineRefusedError, checkpoint_of, endpoint_of, mqtt_of, output_of
from heliograph.node.reader import ReaderPart
from heliograph.node.rules import RulesPart
from heliograph.observe.alarms import Alarms
from heliograph.observe.metric import Metric, Sample, counter, gauge, plain
from heliograph.parts import Change, Part
from heliograph.processes.backoff import Backoff
from heliograph.processes.child_process import SupervisedProcess
from heliograph.processes.programs import PROGRAMS
from heliograph.settings.secrets import SecretError
from heliograph.storage.durable_files import write_durably

_log = logging.getLogger(__name__)

ALARM: Final = "action_runner_failed"
METRICS: Final[tuple[Metric, ...]] = (
    gauge("action_runner.running", "1 while the action runner runs."),
    counter("action_runner.restarts", "Times that it was started again."),
)

_PROGRAM: Final = "heliograph.pipeline.runner"
_RUNNER: Final = "runner"
_SETTINGS_FILE: Final = "settings.json"
_STATUS_FILE: Final = "status.json"  # the runner's
_LOG_BYTES_MAX: Final = 16 * 1024 * 1024
_STOP_S: Final = 30.0
_BACKOFF: Final = Backoff(first_s=0.5, longest_s=30.0)
_FAILURES_BEFORE_ALARM: Final = 3
# Threads that each keep memory of their own, and a pool of Arrow, would hold what a few rows do not need.
_ENVIRONMENT: Final = {"PYTHONUNBUFFERED": "1", "MALLOC_ARENA_MAX": "2", "ARROW_DEFAULT_MEMORY_POOL": "system"}
# A runner that does not read its input looks by itself now and then.
_UNREAD_BYTES_MAX: Final = 64 * 1024


class RunnerProcess(SupervisedProcess):
    """The runner of one node. Owned by its part, from `start` to `stop`, in its event loop."""

    def __init__(self, directory: Path, alarms: Alarms) -> None:
        super().__init__("action-runner", _STOP_S, _BACKOFF)
        self._directory = directory
        self._alarms = alarms
        self.log_file = directory / "runner.log"

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
        process = self._process
        if process is None or process.stdin is None or process.returncode is not None:
            return
        if process.stdin.transport.get_write_buffer_size() <= _UNREAD_BYTES_MAX:
            process.stdin.write(f"{' '.join(words)}\n".encode())

    def look_again(self) -> None:
        """Try again at once what waits after a failure."""
        self.tell("again")

    async def _spawn(self) -> asyncio.subprocess.Process:
        if self.log_file.exists() and self.log_file.stat().st_size > _LOG_BYTES_MAX:
            self.log_file.replace(self.log_file.with_suffix(".log.1"))
        with self.log_file.open("ab") as log:
            return await PROGRAMS.start(
                _PROGRAM,
                str(self._directory / _SETTINGS_FILE),
                stdin=asyncio.subprocess.PIPE,  # its end is the end of this process, however that comes
                stdout=log,
                stderr=log,
                env={**os.environ, **_ENVIRONMENT},
            )

    def _is_steady(self) -> None:
        self._alarms.deactivate(ALARM)

    def _failed(
        self, process: asyncio.subprocess.Process | None, problem: Exception | None, failures: int, pause_s: float
    ) -> None:
        what = f"ended with code {process.returncode}" if process is not None else f"cannot be started: {problem}"
        text = f"the action runner {what}; its log {self.log_file} may tell why, and rows wait"
        _log.error("%s; it starts again in %.1f s", text, pause_s)
        if failures >= _FAILURES_BEFORE_ALARM:
            self._alarms.activate(ALARM, text, {"log": str(self.log_file)}, degrades=False)

    def __repr__(self) -> str:
        return f"RunnerProcess(pid {self.pid}, {self._restarts} restarts)"


class ActionRunnerPart(Part):
    """The runner of the actions whose engine is the local one; owned by the node.

    A change of actions is a changed file, which the process takes over; of what it reads from, another process.
    """

    name = "action_runner"
    metrics = METRICS
    needs = ("kernel", "reader", "listeners", "rules")
    roots = ("actions", "connectors", "rule_engine", "pipeline", "durable_storage.flight", "outbound")

    def __init__(
        self,
        config: Config,
        directory: DataDirectory,
        kernel: KernelPart,
        reader: ReaderPart,
        listeners: ListenersPart,
        rules: RulesPart,
    ) -> None:
        self._config = config
        self._directory = directory
        self._kernel = kernel
        self._reader = reader
        self._listeners = listeners
        self._rules = rules
        self._actions: Mapping[str, Any] = {}
        self._queries: dict[str, str] = {}  # by the beginning of the topics of their rows
        self._process: RunnerProcess | None = None
        self._places: dict[str, Any] = {}
        self._changing: asyncio.Task[None] | None = None

    @property
    def process(self) -> RunnerProcess | None:
        """The process; None while no action is to run."""
        return self._process

    async def start(self) -> None:
        self._rules.engine.on_stored_topics.append(self._on_stored)
        self._use(self._config, _actions_of(self._config))

    async def stop(self) -> None:
        if self._changing is not None:
            await asyncio.wait([self._changing])
        process, self._process = self._process, None
        if process is not None:
            await process.stop()

    async def check(self, new: Config) -> Change | None:
        """`PipelineRefusedError` if an action cannot run, or a secret of it cannot be read."""
        actions = _actions_of(new)
        if actions and find_spec("pyarrow") is None:
            raise PipelineRefusedError(
                "actions without Spark need pyarrow: pip install 'heliograph[actions]', with [actions,sinks] for Kafka"
            )
        if actions and actions != self._actions:
            await self._validate(new, actions)
        return Change(lambda: self._use(new, actions))

    def samples(self) -> list[Sample]:
        process = self._process
        is_running = process is not None and process.pid is not None
        restarts = 0 if process is None else process.restarts
        return plain({"action_runner.running": int(is_running), "action_runner.restarts": restarts})

    def health(self) -> str:
        return "its process does not run" if self._process is not None and self._process.pid is None else ""

    def _use(self, config: Config, actions: Mapping[str, Any]) -> None:
        self._config, self._actions = config, actions
        self._queries = {one["topic"].removesuffix("+"): query for query, one in actions.items()}
        earlier = self._changing
        change = self._change(config, actions, earlier)
        self._changing = asyncio.get_running_loop().create_task(change, name="action-runner-changed")

    async def _change(self, config: Config, actions: Mapping[str, Any], earlier: asyncio.Task[None] | None) -> None:
        """Start, end or notify the runner as a configuration needs it; changes come one after another."""
        if earlier is not None:
            await asyncio.wait([earlier])
        places = self._places_of(config)
        is_wanted = bool(actions) and config.durable_storage.flight.enable
        if self._process is not None and (not is_wanted or places != self._places):
            process, self._process = self._process, None
            await process.stop()
            self._kernel.alarms.deactivate(ALARM)
        if not is_wanted:
            return
        self._places = places
        try:
            await asyncio.to_thread(self._write, self._document(config, actions))
        except OSError as error:
            _log.error("the action runner does not learn what its actions are now: %s", error)
            return
        if self._process is None:
            self._process = RunnerProcess(self._own_directory, self._kernel.alarms)
            self._process.start()
        else:
            self._process.tell("settings")

    async def _validate(self, config: Config, actions: Mapping[str, Any]) -> None:
        """Judge actions in a process of its own, since a broker loads nothing of the pipeline."""
        with self._command(config, actions, "--check") as command:
            fault = await PROGRAMS.fault(*command)
        if fault:
            raise PipelineRefusedError(f"the actions: {fault}")

    @contextlib.contextmanager
    def replay_command(self, action_id: str) -> Iterator[Sequence[str]]:
        """The command that replays the dead letters of an action; its files are gone behind the block.

        Raises:
            SecretError: The file of a secret cannot be read.
        """
        from heliograph.actions.runner_file import runner_action

        with self._command(self._config, runner_action(self._config, action_id), "--replay") as command:
            yield command

    @contextlib.contextmanager
    def _command(self, config: Config, actions: Mapping[str, Any], option: str) -> Iterator[Sequence[str]]:
        with tempfile.TemporaryDirectory(prefix="heliograph-actions-") as scratch:  # only this user may enter it
            file = Path(scratch) / _SETTINGS_FILE
            file.write_text(json.dumps(self._document(config, actions)))
            yield _PROGRAM, option, str(file)

    @property
    def _own_directory(self) -> Path:
        return self._directory.path / DIRECTORY / _RUNNER

    def _places_of(self, config: Config) -> dict[str, Any]:
        data_dir, pipeline = self._directory.path, config.pipeline
        token = ""
        with contextlib.suppress(SecretError):  # the reader says so
            token = pipeline.token.reveal()
        return {
            "checkpoint": checkpoint_of(pipeline, data_dir),
            "output": output_of(pipeline, data_dir),
            "endpoint": endpoint_of(config, self._reader),
            "mqtt": mqtt_of(self._listeners),
            "start": pipeline.start,
            "token": token or None,
            "tls_ca": pipeline.tls_ca or None,
        }

    def _document(self, config: Config, actions: Mapping[str, Any]) -> dict[str, Any]:
        """What the process is given; where it may connect to changes in a process that runs, as actions do."""
        return {**self._places_of(config), "outbound": asdict(config.outbound), "actions": actions}

    def _write(self, document: Mapping[str, Any]) -> None:
        """It may hold secrets."""
        write_durably(self._own_directory / _SETTINGS_FILE, json.dumps(document, indent=1).encode(), 0o600)

    def _on_stored(self, topics: Set[str]) -> None:
        process = self._process
        if process is None:
            return
        found = (self._queries.get(topic[: topic.rfind("/") + 1]) for topic in topics)
        queries = {query for query in found if query is not None}
        if queries:
            process.tell("stored", *queries)


def _actions_of(config: Config) -> dict[str, Any]:
    if next(all_actions(config.actions), None) is None:
        return {}
    from heliograph.actions.runner_file import runner_actions

    try:
        return runner_actions(config)
    except SecretError as error:
        raise PipelineRefusedError(str(error)) from error
