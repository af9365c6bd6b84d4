"""The action runner beside a node: started while it has actions to run, woken by commits, restarted when it dies.

What it does is `heliograph.pipeline.runner`'s. It is a process of its own, which this one knows by its command line
only.
"""

import contextlib
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from heliograph.config.actions.roots import all_actions
from heliograph.config.settings import Config
from heliograph.node.data_dir import DataDirectory
from heliograph.node.databases import Databases
from heliograph.node.kernel import KernelPart
from heliograph.node.listeners import ListenersPart
from heliograph.node.memory_limit import resident
from heliograph.node.pipeline import DIRECTORY, PipelineRefusedError, checkpoint_of, endpoint_of, mqtt_of, output_of
from heliograph.node.reader import ReaderPart
from heliograph.node.row_handover import RowHandover
from heliograph.node.rules import RulesPart
from heliograph.node.side_program import SETTINGS_FILE, SideProcess, SideProgram, SideRun
from heliograph.observe.metric import Metric, Sample, counter, gauge, plain
from heliograph.parts import Change, Part
from heliograph.processes.programs import PROGRAMS
from heliograph.settings.secrets import SecretError
from heliograph.storage.errors import StorageError

ALARM: Final = "action_runner_failed"
METRICS: Final[tuple[Metric, ...]] = (
    gauge("action_runner.running", "1 while the action runner runs."),
    counter("action_runner.restarts", "Times that it was started again."),
    gauge("action_runner.memory_bytes", "Its resident memory without programs and libraries.", "bytes"),
)

_RUNNER: Final = "runner"
_PROGRAM: Final = SideProgram(
    module="heliograph.pipeline.runner",
    name="action-runner",
    title="the action runner",
    log="runner.log",
    alarm=ALARM,
    meanwhile="rows wait",
    # Threads that each keep memory of their own, and a pool of Arrow, would hold what a few rows do not need.
    environment={"MALLOC_ARENA_MAX": "2", "ARROW_DEFAULT_MEMORY_POOL": "system"},
)


class ActionRunnerPart(Part):
    """The runner of the actions whose engine is the local one; owned by the node.

    A change of actions is a changed file, which the process takes over; of what it reads from, another process.
    """

    name = "action_runner"
    metrics = METRICS
    needs = ("kernel", "databases", "reader", "listeners", "rules")
    roots = ("actions", "connectors", "rule_engine", "pipeline", "durable_storage.flight", "outbound")

    def __init__(
        self,
        config: Config,
        directory: DataDirectory,
        kernel: KernelPart,
        databases: Databases,
        reader: ReaderPart,
        listeners: ListenersPart,
        rules: RulesPart,
    ) -> None:
        self._config = config
        self._directory = directory
        self._kernel = kernel
        self._databases = databases
        self._reader = reader
        self._listeners = listeners
        self._rules = rules
        self._actions: Mapping[str, Any] = {}
        self._queries: dict[str, str] = {}  # by the beginning of the topics of their rows
        self._handed_to: dict[str, str] = {}  # those of them that take rows without looking what else waits
        self._run: SideRun | None = None
        self._handover: RowHandover | None = None
        self._handed: Set[str] = frozenset()  # queries whose rows of the ticket that is answered for were handed over

    @property
    def process(self) -> SideProcess | None:
        """The process; None while no action is to run."""
        return None if self._run is None else self._run.process

    async def start(self) -> None:
        directory = self._directory.path / DIRECTORY / _RUNNER
        self._run = SideRun(_PROGRAM, directory, lambda: self._kernel.alarms)
        self._rules.engine.on_stored_topics.append(self._on_stored)
        self._use(self._config, self._actions_of(self._config))

    async def stop(self) -> None:
        if self._run is not None:
            await self._run.stop()

    async def check(self, new: Config) -> Change | None:
        """`PipelineRefusedError` if an action cannot run, or a secret of it cannot be read."""
        actions = self._actions_of(new)
        if actions and find_spec("pyarrow") is None:
            raise PipelineRefusedError(
                "actions without Spark need pyarrow: pip install 'heliograph[actions]', with [actions,sinks] for Kafka"
            )
        if actions and actions != self._actions:
            await self._validate(new, actions)
        return Change(lambda: self._use(new, actions))

    def samples(self) -> list[Sample]:
        run = self._run
        is_running = run is not None and run.pid is not None
        held = 0
        if run is not None and run.pid is not None:
            with contextlib.suppress(OSError):  # it has ended
                held = resident(run.pid).own_bytes
        found = {"running": int(is_running), "restarts": 0 if run is None else run.restarts, "memory_bytes": held}
        return plain({f"action_runner.{name}": value for name, value in found.items()})

    def health(self) -> str:
        return "" if self._run is None else self._run.health()

    def _use(self, config: Config, actions: Mapping[str, Any]) -> None:
        self._config, self._actions = config, actions
        self._queries = {one["topic"].removesuffix("+"): query for query, one in actions.items()}
        self._handed_to = {
            topic: query
            for topic, query in self._queries.items()
            if not actions[query]["batch_time_s"] and actions[query]["waiting_bytes_max"] is None
        }
        if self._handed_to and self._databases.is_open:
            self._hand_over()
        if self._handover is not None:
            self._handover.use(self._handed_to.values(), self._databases.messages.group.gathering_ticket)
        assert self._run is not None
        if actions and config.durable_storage.flight.enable:
            self._run.use(self._document(config, actions), self._places_of(config))
        else:
            self._run.use(None)

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

        action = runner_action(self._config, action_id, self._databases.short_site)
        with self._command(self._config, action, "--replay") as command:
            yield command

    @contextlib.contextmanager
    def _command(self, config: Config, actions: Mapping[str, Any], option: str) -> Iterator[Sequence[str]]:
        with tempfile.TemporaryDirectory(prefix="heliograph-actions-") as scratch:  # only this user may enter it
            file = Path(scratch) / SETTINGS_FILE
            file.write_text(json.dumps(self._document(config, actions)))
            yield _PROGRAM.module, option, str(file)

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

    def _hand_over(self) -> None:
        """Begin to hand rows over, once there is somewhere to store them."""
        if self._handover is None:
            stored = self._databases.messages
            self._handover = RowHandover(stored.database, lambda topic: _found(self._handed_to, topic), self._give)
            self._rules.on_row = self._handover.took
            stored.group.on_written = self._handover.written
            self._databases.on_stored.insert(0, self._on_committed)  # before the rule engine counts its rows

    def _give(self, data: bytes) -> bool:
        process = self.process
        return process is not None and process.give(data)

    def _on_committed(self, ticket: int, error: StorageError | None) -> None:
        assert self._handover is not None
        self._handed = frozenset()
        self._handed = self._handover.committed(ticket, error)

    def _on_stored(self, topics: Set[str]) -> None:
        process = self.process
        if process is None:
            return
        found = (_found(self._queries, topic) for topic in topics)
        queries = {query for query in found if query is not None and query not in self._handed}
        if queries:
            process.tell("stored", *queries)

    def _actions_of(self, config: Config) -> dict[str, Any]:
        if next(all_actions(config.actions), None) is None:
            return {}
        from heliograph.actions.runner_file import runner_actions

        try:
            return runner_actions(config, self._databases.short_site)
        except SecretError as error:
            raise PipelineRefusedError(str(error)) from error


def _found(queries: Mapping[str, str], topic: str) -> str | None:
    """The query of a row by its topic."""
    return queries.get(topic[: topic.rfind("/") + 1])
