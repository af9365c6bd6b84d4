"""What a node tells its action runner: a JSON file of where things are, and of the actions."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from heliograph.hocon.document import parse_text
from heliograph.pipeline.errors import PipelineError, SinkError
from heliograph.pipeline.files.section import FileSection
from heliograph.pipeline.runner.local_rows import check_templates
from heliograph.pipeline.side_outputs.fallbacks import NodeFallbacks
from heliograph.pipeline.sinks import OutputMode, read_sink
from heliograph.pipeline.sinks.interface import RowSink
from heliograph.pipeline.sinks.libraries import absent_library
from heliograph.settings.outbound import OutboundConfig

_ABOUT_COLUMNS: Final = ("columns", "required")


@dataclass(frozen=True)
class RunnerAction:
    """One action: `sink` brings the rows that are stored under `topic` to its target.

    Attributes:
        query: The name of its checkpoint, figures and dead letters; that of its query in Spark.
        has_text_rows: Whether the column of rows is text.
        batch_rows: Rows of a batch at most.
        batch_bytes: Bytes of a batch at most, about; a batch has one row at least.
        batch_time_s: How long rows are gathered for a batch that is not full.
        row_age_max_s: How old a row may be, or it is dropped; None where none is.
        waiting_bytes_max: Bytes of rows that may wait, or the oldest are dropped; None where none are.
        longest_pause_s: The longest pause after a failure.
        fallbacks: What gets refused rows before the dead letters do; None for nothing.
    """

    query: str
    topic: str
    sink: RowSink
    has_text_rows: bool
    batch_rows: int
    batch_bytes: int
    batch_time_s: float = 0.0
    row_age_max_s: float | None = None
    waiting_bytes_max: int | None = None
    longest_pause_s: float = 60.0
    fallbacks: NodeFallbacks | None = None


@dataclass(frozen=True)
class RunnerSettings:
    """Where the runner keeps its place, and what it reads from and publishes to.

    Attributes:
        endpoint: HOST:PORT of the storage reader.
        mqtt: HOST:PORT of the broker, for actions without a server of their own.
        faults: Why actions cannot run, by their queries.
        start: Where actions begin that have no checkpoint: ``earliest``, ``latest``, a time or an offset.
    """

    checkpoint: Path
    output: Path
    endpoint: str
    mqtt: str
    start: str
    token: str | None = field(repr=False)
    tls_ca: str | None
    actions: tuple[RunnerAction, ...]
    faults: Mapping[str, str]


def read_settings(file: Path) -> RunnerSettings:
    """The settings in a file of the node's; an action that cannot run is a fault beside the others."""
    document: dict[str, Any] = json.loads(file.read_bytes())
    outbound = _outbound(document.pop("outbound"))
    actions, faults = _judged(document.pop("actions"), outbound)
    checkpoint, output = (Path(document.pop(name)) for name in ("checkpoint", "output"))
    return RunnerSettings(checkpoint, output, **document, actions=tuple(actions), faults=faults)


def action_faults(actions: Mapping[str, Any], outbound: OutboundConfig) -> Mapping[str, str]:
    """Why actions cannot run, by their queries; they are described as in the file."""
    return _judged(actions, outbound)[1]


def _judged(described: Mapping[str, Any], outbound: OutboundConfig) -> tuple[list[RunnerAction], dict[str, str]]:
    actions, faults = [], {}
    for query, one in described.items():
        try:
            actions.append(_action(query, one, outbound))
        except PipelineError as error:
            faults[query] = str(error).removeprefix(f"{query}: ")
    return actions, faults


def _outbound(document: dict[str, Any]) -> OutboundConfig:
    return FileSection(parse_text(json.dumps(document)), "outbound").read(OutboundConfig)


def tested_sink(file: Path) -> RowSink:
    """The sink of a pipeline file with one rule, whose target a node tests."""
    document: dict[str, Any] = json.loads(file.read_bytes())
    ((query, rule),) = document["rules"].items()
    return _sink(query, rule, _outbound(document["outbound"]))


def _sink(query: str, document: Mapping[str, Any], outbound: OutboundConfig) -> RowSink:
    section = FileSection(parse_text(json.dumps({"sink": document["sink"]})), query).section("sink")
    assert section is not None
    sink = read_sink(section, OutputMode.APPEND, *_ABOUT_COLUMNS, outbound=outbound)
    if not isinstance(sink, RowSink):
        raise SinkError(f"only Spark writes {sink.target}: set actions.engine = auto")
    check_templates(sink)
    if fault := absent_library(sink):
        raise SinkError(fault)
    return sink


def _action(query: str, document: dict[str, Any], outbound: OutboundConfig) -> RunnerAction:
    sink = _sink(query, document, outbound)
    more = {name: value for name, value in document.items() if name not in ("sink", "fallbacks")}
    given = document.get("fallbacks")
    return RunnerAction(query=query, sink=sink, fallbacks=NodeFallbacks(**given) if given else None, **more)
