"""Connectors and actions as a part of a node: state, counts, and tests of targets in a process of their own.

The pipeline and the action runner run actions; no broker loads them.
"""

import asyncio
import logging
import tempfile
from collections.abc import Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

from heliograph.actions.figures import ActionFigures, PipelineFigures, query_name
from heliograph.actions.queries import FAILED, QUERIES, RETRYING, RUNNING, PipelineQueries
from heliograph.actions.reachability import CONNECTED, CONNECTING, DISCONNECTED, Reachability, unreachable_reason
from heliograph.config.actions.fallback_ways import actions_with_rows
from heliograph.config.actions.roots import AUTO, LOCAL, SPARK, all_actions, all_connectors, engine_of, running_actions
from heliograph.config.pipeline_needs import FLIGHT_OFF, PIPELINE_OFF
from heliograph.config.rules import rules_by_action
from heliograph.config.settings import Config
from heliograph.node.action_runner import ActionRunnerPart
from heliograph.node.clock import uptime_us
from heliograph.node.kernel import KernelPart
from heliograph.node.pipeline import PipelinePart
from heliograph.observe.metric import Sample
from heliograph.observe.rate import LOOK_S
from heliograph.outbound import Outbound
from heliograph.parts import Change, Part
from heliograph.processes.programs import PROGRAMS, Programs
from heliograph.settings.secrets import SecretError

if TYPE_CHECKING:
    from heliograph.config.actions.interface import ActionConfig, ConnectorConfig

_log = logging.getLogger(__name__)

_READ_S: Final = 1.0
_FILE: Final = "probe.hocon"
_PROBE: Final = {
    SPARK: ("heliograph.cli.main", "pipeline", "probe"),
    LOCAL: ("heliograph.pipeline.runner", "--probe"),  # which Spark's sinks are not for
}
_PROBE_S: Final = 45.0  # of which the target gets ten


#: The alarms of a node whose rules store rows for actions that nothing brings to their targets.
_OFF_ALARM: Final = "pipeline_off"
_READER_OFF_ALARM: Final = "storage_reader_off"


class _Process(Protocol):
    @property
    def pid(self) -> int | None: ...

    @property
    def status_file(self) -> Path: ...

    def look_again(self) -> None: ...


class _HasProcess(Protocol):
    @property
    def process(self) -> _Process | None: ...


class _Engine:
    """What is known of one of the engines by the file of its process; owned by `ActionsPart`."""

    def __init__(self, part: _HasProcess) -> None:
        self.figures = PipelineFigures()
        self.queries: PipelineQueries | None = None
        self._part = part

    async def read(self) -> None:
        process, queries = self._part.process, self.queries
        if queries is None:
            return
        if process is None or process.pid is None:
            self.figures.end()
            if process is None:
                queries.end()
            else:
                queries.lose_sight()
            return
        document = await asyncio.to_thread(self.figures.read, process.status_file)
        if document is not None and document.get("pid") == process.pid:
            self.figures.take(document)
            queries.take(document.get("queries", ()))
        elif self.figures.pid != process.pid:
            self.figures.end()
            queries.lose_sight()

    def look_again(self) -> bool:
        """Start again what waits after a failure; whether the process runs, as its file says."""
        process = self._part.process
        if process is None or process.pid is None or process.pid != self.figures.pid:
            return False
        process.look_again()
        return True

    def __repr__(self) -> str:
        return f"_Engine({self.figures!r})"


class ActionsPart(Part):
    """How the connectors and actions of a node are; owned by the node."""

    name = "actions"
    metrics = QUERIES
    needs = ("kernel", "pipeline", "action_runner")
    roots = ("connectors", "actions", "rule_engine", "pipeline", "durable_storage.flight")

    def __init__(
        self,
        config: Config,
        kernel: KernelPart,
        pipeline: PipelinePart,
        runner: ActionRunnerPart,
        outbound: Outbound,
    ) -> None:
        self.programs = PROGRAMS
        self._config = config
        self._kernel = kernel
        self._engines = {SPARK: _Engine(pipeline), LOCAL: _Engine(runner)}
        self._outbound = outbound
        self._reachability = Reachability(_now_s, outbound)
        self._reading: asyncio.Task[None] | None = None
        self._read_at_s = self._look_at_s = 0.0
        self._unheeded: Set[tuple[str, str]] = frozenset()

    async def start(self) -> None:
        for engine in self._engines.values():
            engine.queries = PipelineQueries(self._kernel.alarms, lambda query: self._queries.get(query, query))
        self._use(self._config)

    async def stop(self) -> None:
        if self._reading is not None:
            await asyncio.wait([self._reading])
        await self._reachability.stop()

    async def check(self, new: Config) -> Change:
        return Change(lambda: self._use(new))

    def tick(self, uptime_us: int) -> None:
        self._reachability.tick()
        now = _now_s()
        if now >= self._read_at_s and (self._reading is None or self._reading.done()):
            self._read_at_s = now + _READ_S
            self._reading = asyncio.get_running_loop().create_task(self._read(), name="actions-read")
        if now >= self._look_at_s:
            self._look_at_s = now + LOOK_S
            for engine in self._engines.values():
                engine.figures.look()

    def _use(self, config: Config) -> None:
        self._config = config
        connectors = {f"{kind}:{name}": one for kind, name, one in all_connectors(config.connectors)}
        self._reachability.use(connectors)
        self._actions = {f"{kind}:{name}": one for kind, name, one in all_actions(config.actions)}
        self._queries = {query_name(action_id): action_id for action_id in self._actions}
        self._rules = rules_by_action(config.rule_engine)
        self._with_rows = actions_with_rows(config.rule_engine, config.actions)
        self._running = running_actions(config.connectors, config.actions)
        for name, engine in self._engines.items():
            engine.figures.keep({query_name(one) for one in self._actions if self._engine_of(one) == name})
        named = sorted(self._running & self._with_rows)
        has_reader = config.durable_storage.flight.enable
        of_spark = [one for one in named if self._engine_of(one) == SPARK]
        self._tell_off(_OFF_ALARM, [] if config.pipeline.enable else of_spark, f"the pipeline is off: {PIPELINE_OFF}")
        self._tell_unheeded(of_spark)
        local = [one for one in named if self._engine_of(one) == LOCAL]
        self._tell_off(_READER_OFF_ALARM, [] if has_reader else local, FLIGHT_OFF)

    def _tell_off(self, alarm: str, waiting: Sequence[str], why: str) -> None:
        if not waiting:
            self._kernel.alarms.deactivate(alarm)
            return
        shown = f"{', '.join(waiting[:5])}{' and others' if len(waiting) > 5 else ''}"
        text = f"rows wait, and none reaches the target of {shown}: {why}"
        details = {"actions": list(waiting[:100])}
        self._kernel.alarms.activate(alarm, text, details, logs_message=True, degrades=False)
        self._kernel.alarms.update(alarm, text, details)

    def _tell_unheeded(self, of_spark: Sequence[str]) -> None:
        """Say which settings of actions have no effect, once."""
        found = {(one, name) for one in of_spark for name in self._actions[one].resource_opts.given_to_local_engine}
        for action_id, name in sorted(found - self._unheeded):
            _log.warning("%s: resource_opts.%s has no effect, as Spark runs the action", action_id, name)
        self._unheeded = found

    async def _read(self) -> None:
        for engine in self._engines.values():
            await engine.read()

    def samples(self) -> list[Sample]:
        engines = self._engines.values()
        return [sample for engine in engines if engine.queries is not None for sample in engine.queries.samples()]

    def _engine_of(self, action_id: str) -> str:
        return engine_of(self._config.actions.engine, action_id.partition(":")[0])

    def _figures(self, action_id: str) -> ActionFigures:
        return self._engines[self._engine_of(action_id)].figures.find(query_name(action_id))

    # --- what is asked

    @property
    def config(self) -> Config:
        return self._config

    def connector_state(self, connector_id: str) -> tuple[str, str]:
        return self._reachability.state(connector_id)

    def rules_of(self, action_id: str) -> list[str]:
        return self._rules.get(action_id, [])

    def state(self, action_id: str) -> tuple[str, str]:
        action = self._actions.get(action_id)
        if action is None:
            return DISCONNECTED, "there is no such action"
        if not action.enable:
            return DISCONNECTED, "the action is disabled"
        status, reason = self._reachability.state(f"{action_id.partition(':')[0]}:{action.connector}")
        if status != CONNECTED or action_id not in self._with_rows:
            return status, reason
        return self._state_in_engine(action_id)

    def _state_in_engine(self, action_id: str) -> tuple[str, str]:
        engine = self._engine_of(action_id)
        if engine == SPARK and not self._config.pipeline.enable:
            return DISCONNECTED, f"the pipeline is off, and rows wait for it: {PIPELINE_OFF}"
        if not self._config.durable_storage.flight.enable:
            return DISCONNECTED, FLIGHT_OFF
        figures = self._figures(action_id)
        if figures.is_starting_again:
            return CONNECTING, f"it starts again after: {figures.error}"
        if figures.state == RUNNING:
            is_proved = not figures.failures_in_row
            return (CONNECTED, "") if is_proved else (CONNECTING, f"it starts again after: {figures.error}")
        if figures.state in (*FAILED, RETRYING):
            return DISCONNECTED, figures.error or f"its query is {figures.state}"
        return CONNECTING, self._engines[engine].figures.problem or "its engine has yet to start it; rows wait for it"

    def counts(self, action_id: str) -> dict[str, int]:
        return self._figures(action_id).numbers()

    def rates(self, action_id: str) -> dict[str, float]:
        return self._figures(action_id).rate.numbers()

    def reset(self, action_id: str) -> None:
        self._figures(action_id).reset()

    async def look(self, connector_id: str) -> None:
        await self._reachability.look(connector_id)

    async def try_again(self, connector_id: str) -> None:
        """Look at a server now, and have the engine start what waits after a failure."""
        engine = self._engines[self._engine_of(connector_id)]
        if engine.look_again():
            for action_id, action in self._actions.items():
                if f"{action_id.partition(':')[0]}:{action.connector}" == connector_id:
                    self._figures(action_id).start_again()
        await self._reachability.look(connector_id)

    async def test(self, kind: str, connector: "ConnectorConfig", action: "ActionConfig | None") -> str:
        """Why a target cannot be reached, or does not let us in; empty where it can."""
        problem = await unreachable_reason(connector, self._outbound.dialer(f"the tested connector of type {kind}"))
        if problem:
            return problem
        from heliograph.actions.pipeline_file import file_text, probe_section
        from heliograph.actions.sinks import sample_action

        tested = action or sample_action(kind)
        if tested is None:
            return ""
        try:
            section = probe_section(connector, tested)
            text = file_text({"probe": section}, self._config.outbound)
            await probe(text, self.programs, engine_of(AUTO, kind))
        except (SecretError, TargetUnreachableError) as error:
            return str(error)
        return ""


def _now_s() -> float:
    return uptime_us() / 1_000_000


class TargetUnreachableError(Exception):
    code: ClassVar[str] = "action_test_failed"


async def probe(text: str, programs: Programs, engine: str) -> None:
    """See, in a process of its own, whether the target of a pipeline file's sink can be reached and lets us in.

    Args:
        engine: One that has such sinks; only Spark's needs its packages.

    Raises:
        TargetUnreachableError: It cannot.
    """
    with tempfile.TemporaryDirectory(prefix="heliograph-probe-") as scratch:  # only this user may enter it
        file = Path(scratch) / _FILE
        file.write_text(text)
        process = await programs.start(
            *_PROBE[engine],
            str(file),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(_PROBE_S):
                _, stderr = await process.communicate()
        except TimeoutError:
            raise TargetUnreachableError(f"the target has not answered in {_PROBE_S:g} s") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    if process.returncode:
        text = stderr.decode(errors="replace").strip().removeprefix("heliograph pipeline: ").removeprefix("probe: ")
        raise TargetUnreachableError(text.replace(str(file), "the settings") or "the test ended without a word")
