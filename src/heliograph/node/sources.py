"""Sources as a part of a node: their process, which is started while one is enabled, their states and counts.

What they do is `heliograph.sources`', in a process of its own, which this one knows by its command line only; what
becomes of their messages is decided in `control.sources`.
"""

import asyncio
import contextlib
import json
import logging
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final

from heliograph.config.settings import Config
from heliograph.config.sources.interface import MessageSourceConfig
from heliograph.config.sources.roots import all_sources, running_sources, source_connector
from heliograph.control.proto_v1.sources import SourceAdmitted
from heliograph.node.data_dir import DataDirectory
from heliograph.node.databases import Databases
from heliograph.node.http_in_callers import HttpInCallers
from heliograph.node.kernel import KernelPart
from heliograph.node.rules import RulesPart
from heliograph.node.side_program import SETTINGS_FILE, SideProgram, SideRun
from heliograph.node.source_settings import document_of_one, needs_process, sources_document
from heliograph.observe.alarms import Alarms
from heliograph.observe.bounded_log import BoundedLog
from heliograph.observe.metric import Metric, Sample, counter, gauge
from heliograph.observe.rate import LOOK_S, CountRate
from heliograph.parts import Change, Part
from heliograph.processes.programs import PROGRAMS
from heliograph.rpc.socket_path import CONTROL_SOCKET
from heliograph.rules.events import source_event
from heliograph.settings.secrets import SecretError

_log = logging.getLogger(__name__)

ALARM: Final = "sources_failed"
DISCONNECTED_ALARM: Final = "source_disconnected"
CONNECTED: Final = "connected"
CONNECTING: Final = "connecting"
DISCONNECTED: Final = "disconnected"
METRICS: Final[tuple[Metric, ...]] = (
    gauge("sources.running", "1 while the process of sources runs."),
    counter("sources.restarts", "Times that it was started again."),
    gauge("source.connected", "1 while messages can come from a source.", "", ("source",)),
    counter("source.received", "Messages that came from it.", "", ("source",)),
    counter("source.dropped", "Of these, those that never could be taken.", "", ("source", "reason")),
)

_DIRECTORY: Final = "sources"
_PROGRAM: Final = SideProgram(
    module="heliograph.sources",
    name="sources",
    title="the process of sources",
    log="sources.log",
    alarm=ALARM,
    meanwhile="messages wait where they come from",
    environment={"MALLOC_ARENA_MAX": "2"},
)
_LINES_PER_MINUTE: Final = 20
_AGAIN_S: Final = 5.0  # for a try that a person asked for


class SourcesRefusedError(Exception):
    """The sources of a configuration cannot run."""

    code: ClassVar[str] = "sources_refused"


@dataclass(slots=True)
class _Figures:
    """What is known of one source.

    Attributes:
        held: Why the node takes none of its messages at present.
        last_error: Of the last message that was dropped.
    """

    status: str = CONNECTING
    reason: str = ""
    held: str = ""
    received: int = 0
    last_error: str = ""
    dropped: Counter[str] = field(default_factory=Counter)
    before: Counter[str] = field(default_factory=Counter)  # at the last reset, with `received`
    rate: CountRate = field(default_factory=CountRate)


class SourcesPart(Part):
    """The sources of a node; owned by the node."""

    name = "sources"
    metrics = METRICS
    needs = ("data_dir", "kernel", "databases", "rules")
    roots = ("sources", "connectors", "outbound", "management.enable")

    def __init__(
        self,
        config: Config,
        directory: DataDirectory,
        kernel: KernelPart,
        databases: Databases,
        rules: RulesPart,
    ) -> None:
        self._rules = rules
        self._config = config
        self._directory = directory
        self._kernel = kernel
        self._databases = databases
        self._known: dict[str, MessageSourceConfig] = {}
        self._taking: dict[str, MessageSourceConfig] = {}
        self._figures: dict[str, _Figures] = {}
        self._run: SideRun | None = None
        self._look_at_us = 0
        self._reported: asyncio.Event | None = None
        self._site = ""
        self._callers = HttpInCallers({}, self._warn_of_secret)

    async def start(self) -> None:
        path = self._directory.path / _DIRECTORY
        self._run = SideRun(_PROGRAM, path, lambda: self._alarms, self._process_ended)
        self._log = BoundedLog(_log, self._kernel.clock.now_us, _LINES_PER_MINUTE)
        self._site = self._databases.short_site
        self._reported = asyncio.Event()
        self._use(self._config, self._document_of(self._config), self._callers_of(self._config))

    async def stop(self) -> None:
        if self._run is not None:
            await self._run.stop()

    async def check(self, new: Config) -> Change:
        """`SourcesRefusedError` if a secret of one cannot be read."""
        document, callers = self._document_of(new), self._callers_of(new)
        return Change(lambda: self._use(new, document, callers))

    def tick(self, uptime_us: int) -> None:
        if uptime_us >= self._look_at_us:
            self._look_at_us = uptime_us + int(LOOK_S * 1_000_000)
            for figures in self._figures.values():
                figures.rate.look(figures.received)

    def health(self) -> str:
        return "" if self._run is None else self._run.health()

    def samples(self) -> list[Sample]:
        run = self._run
        found = [
            Sample("sources.running", int(run is not None and run.pid is not None)),
            Sample("sources.restarts", 0 if run is None else run.restarts),
        ]
        for name, figures in self._figures.items():
            found.append(Sample("source.connected", int(self.state(name)[0] == CONNECTED), (name,)))
            found.append(Sample("source.received", figures.received, (name,)))
            found += [Sample("source.dropped", count, (name, reason)) for reason, count in figures.dropped.items()]
        return found

    # --- what the process says, and what is asked

    @property
    def config(self) -> Config:
        return self._config

    @property
    def site(self) -> str:
        return self._site

    @property
    def pid(self) -> int | None:
        """The number of the process; None while it does not run."""
        return None if self._run is None else self._run.pid

    def admits(self, source_id: str, token: str) -> SourceAdmitted | None:
        if not self._callers.admits(source_id, token) or source_id not in self._taking:
            return None
        parameters = self._config.sources.http_in[source_id.partition(":")[2]].parameters
        return SourceAdmitted(parameters.max_body_size, parameters.qos, self._callers.header_of(source_id))

    def is_signed(self, source_id: str, signature: str, body: bytes) -> bool:
        return self._callers.is_signed(source_id, signature, body)

    def running(self, source_id: str) -> MessageSourceConfig | None:
        return self._taking.get(source_id)

    def count(self, source_id: str, received: int, dropped: Mapping[str, int], error: str) -> None:
        figures = self._figures.get(source_id)
        if figures is None:
            return
        figures.received += received
        for reason, count in dropped.items():
            if reason not in figures.dropped:  # once for each cause; the counts say how often
                _log.warning("source %s: a message was dropped (%s): %s", source_id, reason, error)
            figures.dropped[reason] += count
            figures.last_error = error

    def held(self, source_id: str, why: str) -> None:
        figures = self._figures.get(source_id)
        if figures is not None and figures.held != why:
            figures.held = why
            if why:
                self._log.warn("source %s: its messages wait where they come from: %s", source_id, why)

    def report(self, pid: int, states: Mapping[str, tuple[str, str]]) -> int:
        if self._run is None or self._run.pid != pid:
            return 0  # of a process that is gone
        if self._reported is not None:
            self._reported.set()
        found = 0
        for source_id, (status, reason) in states.items():
            figures = self._figures.get(source_id)
            if figures is not None:
                found += 1
                self._be(source_id, figures, status, reason)
        return found

    def state(self, source_id: str) -> tuple[str, str]:
        """The status and the reason."""
        source, figures = self._known.get(source_id), self._figures.get(source_id)
        if source is None or figures is None:
            return DISCONNECTED, "there is no such source"
        if not source.enable:
            return DISCONNECTED, "the source is disabled"
        connector = source_connector(self._config.connectors, source_id.partition(":")[0], source)
        if connector is not None and not connector.enable:
            return DISCONNECTED, "the connector is disabled"
        if not needs_process(source_id.partition(":")[0]) and not self._config.management.enable:
            return DISCONNECTED, "nothing serves HTTP: set management.enable = true"
        return figures.status, figures.reason or figures.held

    def counts(self, source_id: str) -> dict[str, int]:
        figures = self._figures.get(source_id, _NONE)
        dropped = {f"dropped.{reason}": count - figures.before[reason] for reason, count in figures.dropped.items()}
        return {
            "received": figures.received - figures.before["received"],
            "dropped": sum(dropped.values()),
            **dropped,
        }

    def last_error(self, source_id: str) -> str:
        return self._figures.get(source_id, _NONE).last_error

    def rates(self, source_id: str) -> dict[str, float]:
        return self._figures.get(source_id, _NONE).rate.numbers()

    def reset(self, source_id: str) -> None:
        figures = self._figures.get(source_id)
        if figures is not None:
            figures.before = Counter(figures.dropped)
            figures.before["received"] = figures.received
            figures.last_error, figures.rate = "", CountRate()
            figures.rate.look(figures.received)

    def rules_of(self, source_id: str) -> list[str]:
        return self._rules.engine.rules_reading(source_event(source_id).topics)

    async def try_again(self) -> None:
        """Connect now those that wait after a failure."""
        if self._run is not None and self._run.process is not None:
            self._run.process.look_again()
            states = [self.state(name) for name in self._taking]
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_AGAIN_S):
                    while self._reported is not None and states == [self.state(name) for name in self._taking]:
                        self._reported.clear()
                        await self._reported.wait()

    async def test(self, kind: str, source: MessageSourceConfig) -> str:
        """Try it in a process of its own."""
        connector = source_connector(self._config.connectors, kind, source)
        try:
            document = document_of_one(self._config, kind, source, connector)
        except SecretError as error:
            return str(error)
        if document is None:
            return ""
        with tempfile.TemporaryDirectory(prefix="heliograph-source-") as scratch:  # only this user may enter it
            file = Path(scratch) / SETTINGS_FILE
            await asyncio.to_thread(file.write_text, json.dumps(document))
            return await PROGRAMS.fault(_PROGRAM.module, "--check", str(file))

    # --- inside

    @property
    def _alarms(self) -> Alarms:
        return self._kernel.alarms

    def _document_of(self, config: Config) -> dict[str, Any]:
        try:
            return sources_document(config, str((self._directory.path / CONTROL_SOCKET).absolute()), self._site)
        except SecretError as error:
            raise SourcesRefusedError(f"the sources: {error}") from error

    def _callers_of(self, config: Config) -> HttpInCallers:
        parameters = {f"http_in:{name}": one.parameters for name, one in config.sources.http_in.items()}
        try:
            return HttpInCallers(parameters, self._warn_of_secret)
        except SecretError as error:
            raise SourcesRefusedError(f"the sources: {error}") from error

    def _warn_of_secret(self, text: str) -> None:
        self._log.warn("%s", text)

    def _use(self, config: Config, document: Mapping[str, Any], callers: HttpInCallers) -> None:
        assert self._run is not None
        self._callers = callers
        before = self._known
        self._config = config
        self._known = {f"{kind}:{name}": one for kind, name, one in all_sources(config.sources)}
        self._taking = {name: one for name, one, _ in running_sources(config.connectors, config.sources)}
        for name in self._figures.keys() - self._known.keys():
            del self._figures[name]
            self._alarms.deactivate(f"{DISCONNECTED_ALARM}/{name}")
        for name, one in self._known.items():
            figures = self._figures.setdefault(name, _Figures())
            if not needs_process(name.partition(":")[0]):
                self._be(name, figures, CONNECTED, "")
            elif name not in self._taking or before.get(name) != one:
                self._be(name, figures, CONNECTING, "")
        # The process ends with the last source, but ends the sessions of those that were deleted before.
        self._run.use(document, is_last=not document["sources"])

    def _be(self, name: str, figures: _Figures, status: str, reason: str) -> None:
        figures.status, figures.reason = status, reason
        alarm = f"{DISCONNECTED_ALARM}/{name}"
        if status != DISCONNECTED:
            self._alarms.deactivate(alarm)
            return
        text = f"the source {name} is not connected, and its messages wait there: {reason}"
        if not self._alarms.activate(alarm, text, {"source": name, "reason": reason}, degrades=False):
            self._alarms.update(alarm, text, {"source": name, "reason": reason})

    def _process_ended(self) -> None:
        for name, figures in self._figures.items():
            if not needs_process(name.partition(":")[0]):
                continue
            self._be(name, figures, CONNECTING, "the process of sources does not run" if name in self._taking else "")


_NONE: Final = _Figures()
