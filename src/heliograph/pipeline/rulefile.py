"""Reads the rule files of a pipeline: HOCON in, the values of `heliograph.pipeline.definition` out.

Every mistake is told with its file and line. The rules themselves are parsed here once, so that a mistake in the SQL of
any of them stops the driver before anything runs.
"""

import difflib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Final, TypeVar

from heliograph.hocon import HoconError, Node, parse_file
from heliograph.pipeline.definition import (
    ConsoleSink,
    MqttSink,
    OutputMode,
    ParquetSink,
    Pipeline,
    RuleJob,
    Sink,
    StreamSqlJob,
    Watermark,
)
from heliograph.pipeline.errors import OptionError, RuleFileError
from heliograph.pipeline.options import parse_endpoint
from heliograph.rules import CompiledRule, RuleSyntaxError
from heliograph.rules.spark import plan_rule

_Job = TypeVar("_Job", RuleJob, StreamSqlJob)

_SUFFIXES: Final = (".hocon", ".conf")
# The name becomes a directory, a view in SQL, and a part of a client id.
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def load_pipeline(path: Path) -> Pipeline:
    """Read one rule file, or all rule files (``*.hocon``, ``*.conf``) of a directory, as one pipeline.

    Raises:
        RuleFileError: There is no such file, or something in one is not valid.
    """
    rules: dict[str, RuleJob] = {}
    stream_sql: dict[str, StreamSqlJob] = {}
    for file in _rule_files(path):
        try:
            document = _Section(parse_file(file), "the file")
        except HoconError as error:
            raise RuleFileError(str(error)) from error
        document.check_keys("rules", "stream_sql")
        for name, section in document.sections("rules"):
            _add(rules, name, _rule(name, section), section, [*rules, *stream_sql])
        for name, section in document.sections("stream_sql"):
            _add(stream_sql, name, _stream_sql(name, section), section, [*rules, *stream_sql])
    pipeline = Pipeline(rules, stream_sql)
    _check_whole(pipeline, path)
    return pipeline


def _rule_files(path: Path) -> Sequence[Path]:
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES)
        if not files:
            raise RuleFileError(f"{path} has no rule files: they end with {' or '.join(_SUFFIXES)}")
        return files
    if not path.is_file():
        raise RuleFileError(f"{path} is neither a rule file nor a directory of rule files")
    return [path]


class _Section:
    """An object of a rule file, with the questions that the functions below ask of it."""

    def __init__(self, node: Node, path: str) -> None:
        self.node = node
        self.path = path
        if not isinstance(node.value, dict):
            raise self.mistake(f"{path} is {node.kind}, but must be an object")
        self.fields: Mapping[str, Node] = node.value

    def mistake(self, text: str, node: Node | None = None) -> RuleFileError:
        return RuleFileError(f"{(node or self.node).position}: {text}")

    def check_keys(self, *valid: str) -> None:
        for key, node in self.fields.items():
            if key not in valid:
                near = difflib.get_close_matches(key, valid, 1)
                hint = f"did you mean {near[0]}?" if near else f"valid are {', '.join(valid)}"
                raise self.mistake(f"{self._name(key)} is not known: {hint}", node)

    def sections(self, key: str) -> list[tuple[str, "_Section"]]:
        if key not in self.fields:
            return []
        named = _Section(self.fields[key], self._name(key))
        sections = [(name, _Section(node, f"{key}.{name}")) for name, node in named.fields.items()]
        for name, section in sections:
            if not _NAME.fullmatch(name):
                raise section.mistake(f"{name!r} is not a name: names have letters, digits and _, first a letter")
        return sections

    def section(self, key: str) -> "_Section | None":
        return _Section(self.fields[key], self._name(key)) if key in self.fields else None

    def text(self, key: str, default: str | None = None) -> str:
        if key not in self.fields and default is not None:
            return default
        node = self._required(key, "a string")
        if not isinstance(node.value, str) or not node.value.strip():
            raise self.mistake(f"{self._name(key)} is {node.kind}, but must be a string with text", node)
        return node.value

    def number(self, key: str, default: int, valid: range) -> int:
        node = self.fields.get(key)
        if node is None:
            return default
        if not isinstance(node.value, int) or isinstance(node.value, bool) or node.value not in valid:
            limits = f"{valid.start} to {valid.stop - 1}"
            raise self.mistake(f"{self._name(key)} must be a whole number from {limits}", node)
        return node.value

    def flag(self, key: str) -> bool:
        node = self.fields.get(key)
        if node is None:
            return False
        if not isinstance(node.value, bool):
            raise self.mistake(f"{self._name(key)} is {node.kind}, but must be true or false", node)
        return node.value

    def names(self, key: str) -> tuple[str, ...]:
        node = self.fields.get(key)
        if node is None:
            return ()
        items = node.value if isinstance(node.value, list) else []
        names = tuple(item.value for item in items if isinstance(item.value, str) and item.value)
        if not names or len(names) != len(items):
            raise self.mistake(f"{self._name(key)} must be a list of column names, such as [station]", node)
        return names

    def texts(self, key: str) -> dict[str, str]:
        section = self.section(key)
        return {name: section.text(name) for name in section.fields} if section is not None else {}

    def _required(self, key: str, kind: str) -> Node:
        if key not in self.fields:
            raise self.mistake(f"{self.path} has no {key}: it must be {kind}")
        return self.fields[key]

    def _name(self, key: str) -> str:
        return key if self.path == "the file" else f"{self.path}.{key}"


def _rule(name: str, section: _Section) -> RuleJob:
    section.check_keys("sql", "columns", "sink")
    sql = section.text("sql")
    try:
        CompiledRule(sql)
    except RuleSyntaxError as error:
        raise section.mistake(f"{section.path}.sql: {error}", section.fields["sql"]) from error
    sink = section.section("sink")
    columns = {**section.texts("columns"), **(sink.texts("columns") if sink is not None else {})}
    try:
        outputs = [output for output, _ in plan_rule(sql, columns).outputs]
    except ValueError as error:
        raise section.mistake(f"{section.path}.columns: {error}") from error
    if sink is None:
        return RuleJob(name, sql, columns, None, (), _origin(section))
    required = sink.names("required")
    for column in required:
        if column not in outputs:
            told = f"{sink.path}.required names {column!r}, but the columns are {', '.join(outputs)}"
            raise sink.mistake(told, sink.fields["required"])
    return RuleJob(name, sql, columns, _sink(sink, ("columns", "required")), required, _origin(section))


def _stream_sql(name: str, section: _Section) -> StreamSqlJob:
    section.check_keys("from", "sql", "mode", "watermark", "sink")
    mode_text = section.text("mode", OutputMode.APPEND.value)
    if mode_text not in [mode.value for mode in OutputMode]:
        raise section.mistake(f"{section.path}.mode is {mode_text!r}, but must be append, update or complete")
    sink_section = section.section("sink")
    if sink_section is None:
        raise section.mistake(f"{section.path} has no sink")
    mode = OutputMode(mode_text)
    sink = _sink(sink_section, ())
    _check_mode(sink_section, sink, mode)
    source, sql = section.text("from"), section.text("sql")
    return StreamSqlJob(name, source, sql, mode, _watermark(section.section("watermark")), sink, _origin(section))


def _watermark(section: _Section | None) -> Watermark | None:
    if section is None:
        return None
    section.check_keys("column", "delay")
    return Watermark(section.text("column"), section.text("delay"))


def _sink(section: _Section, more_keys: Sequence[str]) -> Sink:
    kind = section.text("type")
    if kind == "parquet":
        section.check_keys("type", "path", "partition_by", "key", *more_keys)
        return ParquetSink(_table_path(section), section.names("partition_by"), section.names("key"))
    if kind == "console":
        section.check_keys("type", "rows", *more_keys)
        return ConsoleSink(section.number("rows", ConsoleSink.rows, range(1, 10_001)))
    if kind == "mqtt":
        section.check_keys("type", "topic", "payload", "qos", "retain", "server", *more_keys)
        return _mqtt_sink(section)
    raise section.mistake(f"{section.path}.type is {kind!r}, but must be parquet, console or mqtt")


def _mqtt_sink(section: _Section) -> MqttSink:
    server = section.text("server") if "server" in section.fields else None
    if server is not None:
        try:
            parse_endpoint("server", server)
        except OptionError as error:
            raise section.mistake(f"{section.path}: {error}", section.fields["server"]) from error
    return MqttSink(
        topic=section.text("topic"),
        payload=section.text("payload") if "payload" in section.fields else None,
        qos=section.number("qos", MqttSink.qos, range(3)),
        retain=section.flag("retain"),
        server=server,
    )


def _table_path(section: _Section) -> str:
    path = section.text("path")
    parts = PurePosixPath(path).parts
    if PurePosixPath(path).is_absolute() or any(part.startswith((".", "_")) for part in parts):
        raise section.mistake(
            f"{section.path}.path is {path!r}, but must be a path below the output directory without a leading . or _",
            section.fields["path"],
        )
    return path


def _check_mode(section: _Section, sink: Sink, mode: OutputMode) -> None:
    if not isinstance(sink, ParquetSink) or mode is OutputMode.APPEND:
        return
    if sink.partition_by:
        raise section.mistake(f"{section.path}.partition_by is for mode append: a result that changes is one file")
    if mode is OutputMode.UPDATE and not sink.key:
        raise section.mistake(f"{section.path} has no key: mode update needs the columns that identify a row")


def _add(jobs: dict[str, _Job], name: str, job: _Job, section: _Section, taken: Sequence[str]) -> None:
    if name in taken:
        raise section.mistake(f"the name {name} is given twice: each rule and job needs its own")
    jobs[name] = job


def _check_whole(pipeline: Pipeline, path: Path) -> None:
    if not pipeline.query_names:
        raise RuleFileError(f"{path} has nothing to run: give a rule a sink, or add a job under stream_sql")
    for job in pipeline.stream_sql.values():
        if job.source not in pipeline.rules:
            rules = ", ".join(pipeline.rules) or "none"
            raise RuleFileError(f"{job.origin}: {job.name} reads from {job.source}, but the rules are: {rules}")
    tables: dict[str, str] = {}
    for name in pipeline.query_names:
        entry = pipeline.stream_sql.get(name) or pipeline.rules[name]
        if not isinstance(entry.sink, ParquetSink):
            continue
        if entry.sink.path in tables:
            raise RuleFileError(f"{entry.origin}: {name} and {tables[entry.sink.path]} write the same table")
        tables[entry.sink.path] = name


def _origin(section: _Section) -> str:
    return str(section.node.position)
