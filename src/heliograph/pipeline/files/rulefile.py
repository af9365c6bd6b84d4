"""Reads the files of a pipeline: HOCON in, the values of `heliograph.pipeline.files.definition` out.

All mistakes are reported at once, each with its file and line. The rules themselves are parsed here once, so that a
mistake in the SQL of any of them stops the driver before anything runs. What is wrong with Spark SQL, Spark reports
later (`heliograph.pipeline.running.queries`).
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from heliograph.hocon.document import parse_file
from heliograph.hocon.errors import HoconError
from heliograph.pipeline.datasource.decoding import PERMISSIVE
from heliograph.pipeline.datasource.options import SourceOptions
from heliograph.pipeline.errors import OptionError, RuleFileError
from heliograph.pipeline.files.definition import (
    DeadLetterSettings,
    LateRowSettings,
    Pipeline,
    RuleJob,
    Source,
    StaticTable,
    StreamSqlJob,
    Watermark,
)
from heliograph.pipeline.files.section import FileSection
from heliograph.pipeline.files.settings import Roots, RuleSettings, SinkColumns, SourceSettings, StreamSqlSettings
from heliograph.pipeline.sinks import OutputMode, Sink, read_sink
from heliograph.rules.errors import RuleSyntaxError
from heliograph.rules.evaluator import CompiledRule
from heliograph.rules.output import call_faults
from heliograph.rules.schemas.settings import SchemaSettings, with_outbound
from heliograph.rules.spark import plan_rule
from heliograph.settings.outbound import OutboundConfig
from heliograph.settings.secrets import FILE_PREFIX, Secret

_T = TypeVar("_T")
_SUFFIXES: Final = (".hocon", ".conf")
_SCHEMA_ROOTS: Final = frozenset({"schemas", "schema_registry"})

# Options of the data source that a source may have, by their names in a file.
_SOURCE_OPTIONS: Final = {
    "database": "database",
    "endpoint": "endpoint",
    "start": "start",
    "schema": "schema",
    "json_schema": "jsonSchema",
    "mode": "mode",
    "max_messages_per_trigger": "maxMessagesPerTrigger",
    "max_bytes_per_trigger": "maxBytesPerTrigger",
    "token": "token",
}

# What of a query's text is no name: strings and comments.
_NOT_NAMES: Final = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|--[^\n]*|/\*.*?\*/", re.DOTALL)
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def load_pipeline(path: Path, *more: Path) -> Pipeline:
    """Read files, or all pipeline files (``*.hocon``, ``*.conf``) of directories, as one pipeline."""
    return _Reader(path, *more).read()


def pipeline_files(path: Path) -> Sequence[Path]:
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES)
        if not files:
            raise RuleFileError(f"{path} has no pipeline files: they end with {' or '.join(_SUFFIXES)}")
        return files
    if not path.is_file():
        raise RuleFileError(f"{path} is neither a pipeline file nor a directory of pipeline files")
    return [path]


class _Reader:
    def __init__(self, path: Path, *more: Path) -> None:
        self._path = path
        self._files = tuple(file for one in (path, *more) for file in pipeline_files(one))
        self._mistakes: list[RuleFileError] = []
        read = [self._attempt(partial(_document, file, self._mistakes), None) for file in self._files]
        self._documents = [document for document in read if document is not None]
        self._outbound = self._attempt(self._read_outbound, OutboundConfig())
        self._names: dict[str, str] = {}
        self._sinks = dict(self._sections("sinks"))
        self._sinks_used: set[str] = set()

    def read(self) -> Pipeline:
        with_schemas = [document for document in self._documents if _SCHEMA_ROOTS & document.fields.keys()]
        none: tuple[SchemaSettings, ...] = ()
        read = [self._attempt(partial(_schemas, document), none) for document in with_schemas]
        schemas = tuple(with_outbound(schema, self._outbound) for some in read for schema in some)
        sources = self._all("sources", read_source)
        tables = self._all("tables", read_table)
        rules = self._all("rules", self._rule)
        # Also of those with a mistake of their own, which has been noted.
        views = {**dict.fromkeys(self._named("rules", "sources")), **_watermarks(rules), **_watermarks(sources)}
        names = self._named("tables")
        jobs = self._all("stream_sql", lambda name, section: self._stream_sql(name, section, views, names))
        sinks = self._named_sinks()
        settings, late_settings = self._attempt(self._side_tables, (DeadLetterSettings(), LateRowSettings()))
        pipeline = Pipeline(rules, jobs, sources, tables, schemas, settings, late_settings, sinks, self._files)
        if not self._mistakes:
            self._attempt(lambda: _check_whole(pipeline, self._path), None)
        if self._mistakes:
            raise RuleFileError(*dict.fromkeys(text for mistake in self._mistakes for text in mistake.mistakes))
        return pipeline

    def _named_sinks(self) -> dict[str, Sink]:
        """The named sinks as those of final rows; of one that is used, its query says what is wrong."""
        sinks: dict[str, Sink | None] = {}
        for name, section in self._sinks.items():
            read = partial(read_sink, section, OutputMode.APPEND, "columns", "required", outbound=self._outbound)
            if name not in self._sinks_used:
                sinks[name] = self._attempt(read, None)
                continue
            with suppress(RuleFileError):
                sinks[name] = read()
        return {name: sink for name, sink in sinks.items() if sink is not None}

    def _attempt(self, read: Callable[[], _T], otherwise: _T) -> _T:
        """What a part of the files says; a mistake in it is noted, and reading goes on."""
        try:
            return read()
        except RuleFileError as mistake:
            self._mistakes.append(mistake)
            return otherwise

    def _side_tables(self) -> tuple[DeadLetterSettings, LateRowSettings]:
        letters, late = self._last("dead_letters"), self._last("late")
        settings = DeadLetterSettings() if letters is None else letters.read(DeadLetterSettings)
        late_settings = LateRowSettings() if late is None else late.read(LateRowSettings)
        if settings.path == late_settings.path:
            text = f"dead_letters.path and late.path are both {settings.path!r}: each needs a table of its own"
            raise (late or letters or self._documents[0]).mistake(text)
        return settings, late_settings

    def _read_outbound(self) -> OutboundConfig:
        """The last file that has it says it: where a node runs a pipeline, that is the node's."""
        section = self._last("outbound")
        return OutboundConfig() if section is None else section.read(OutboundConfig)

    def _named(self, *keys: str) -> list[str]:
        return [name for key in keys for name, _ in self._sections(key)]

    def _last(self, key: str) -> FileSection | None:
        found = [section for document in self._documents if (section := document.section(key)) is not None]
        return found[-1] if found else None

    def _sections(self, key: str) -> Iterator[tuple[str, FileSection]]:
        for document in self._documents:
            none: list[tuple[str, FileSection]] = []
            yield from self._attempt(partial(document.sections, key), none)

    def _all(self, key: str, read: Callable[[str, FileSection], _T | None]) -> dict[str, _T]:
        found: dict[str, _T] = {}
        for name, section in self._sections(key):
            self._attempt(partial(self._take_name, key, name, section), None)
            value = self._attempt(partial(read, name, section), None)
            if value is not None:
                found[name] = value
        return found

    def _take_name(self, key: str, name: str, section: FileSection) -> None:
        section.check_name(name)
        # Views, tables and queries share their names: a query's SQL tells them apart by nothing else.
        if name.casefold() in self._names:
            other = self._names[name.casefold()]
            raise section.mistake(f"the name {name} is given twice: {other} and {key}.{name} need their own")
        self._names[name.casefold()] = f"{key}.{name}"

    def _rule(self, name: str, section: FileSection) -> RuleJob | None:
        settings = self._attempt(partial(section.read, RuleSettings), None)
        source = self._attempt(partial(self._source_of, section), None)
        sink_section = self._attempt(partial(self._sink_section, section), None)
        if settings is None or self._attempt(partial(_check_sql, section, settings.sql), None) is None:
            if sink_section is not None:
                self._attempt(partial(self._sink, section, (), sink_section, OutputMode.APPEND, None), None)
            return None
        columns = dict(settings.columns)
        if sink_section is not None:
            columns |= sink_section.read(SinkColumns, others=sink_section.fields.keys() - {"columns"}).columns
        try:
            outputs = [output for output, _ in plan_rule(settings.sql, columns).outputs]
        except ValueError as error:
            raise section.mistake(str(error), "columns") from error
        watermark = settings.watermark
        if watermark is not None and watermark.column not in outputs:
            text = f"its column is {watermark.column!r}, but the columns are {', '.join(outputs)}"
            raise section.mistake(text, "watermark")
        nothing: tuple[Sink | None, tuple[str, ...]] = (None, ())
        read = partial(self._sink, section, settings.required, sink_section, OutputMode.APPEND, outputs)
        sink, required_columns = self._attempt(read, nothing)
        return RuleJob(
            name=name,
            sql=settings.sql,
            columns=columns,
            sink=sink,
            required=required_columns,
            origin=section.origin,
            source=source,
            watermark=watermark,
            deduplicate=settings.deduplicate.columns if settings.deduplicate is not None else (),
            version=settings.version,
            alone=settings.alone,
            fallbacks=settings.fallbacks,
        )

    def _source_of(self, section: FileSection) -> str | None:
        found, sources = section.fields.get("source"), self._named("sources")
        if found is not None and found.value not in sources:
            raise section.mistake(
                f"found {found.value!r}, but the sources are: {', '.join(sources) or 'none'}", "source"
            )
        return str(found.value) if found is not None else None

    def _stream_sql(
        self, name: str, section: FileSection, views: Mapping[str, Watermark | None], tables: Sequence[str]
    ) -> StreamSqlJob:
        settings = section.read(StreamSqlSettings)
        read = _views_read(section, settings, list(views))
        if settings.watermark is not None and len(read) > 1:
            raise section.mistake(
                f"it is not clear of which, since the job reads {', '.join(read)}: give each of them its own, where "
                "it is defined",
                "watermark",
            )
        sink_section = self._sink_section(section)
        sink, required_columns = self._sink(section, settings.required, sink_section, settings.mode, None)
        assert sink is not None
        return StreamSqlJob(
            name=name,
            views=read,
            sql=settings.sql,
            mode=settings.mode,
            sink=sink,
            watermark=settings.watermark,
            tables=names_in(settings.sql, tables),
            required=required_columns,
            origin=section.origin,
            version=settings.version,
        )

    def _sink_section(self, section: FileSection) -> FileSection | None:
        node = section.fields.get("sink")
        if node is None or not isinstance(node.value, str):
            return section.section("sink")
        if node.value not in self._sinks:
            known = ", ".join(self._sinks) or "none"
            raise section.mistake(f"found {node.value!r}, but the sinks are: {known}", "sink")
        self._sinks_used.add(node.value)
        return self._sinks[node.value]

    def _sink(
        self,
        section: FileSection,
        required_columns: tuple[str, ...],
        sink: FileSection | None,
        mode: OutputMode,
        outputs: Sequence[str] | None,
    ) -> tuple[Sink | None, tuple[str, ...]]:
        if sink is None:
            return None, ()
        own = sink.read(SinkColumns, others=sink.fields.keys() - {"required"}).required
        wanted = tuple(dict.fromkeys((*own, *required_columns)))
        where = sink if "required" in sink.fields else section
        for column in wanted:
            if outputs is not None and column not in outputs:
                raise where.mistake(f"names {column!r}, but the columns are {', '.join(outputs)}", "required")
        return read_sink(sink, mode, "columns", "required", outbound=self._outbound), wanted


def _check_sql(section: FileSection, sql: str) -> bool:
    """True if there is a rule that can be run; calls of functions that there are not fail for every message."""
    try:
        faults = list(call_faults(CompiledRule(sql).tree))
    except RuleSyntaxError as error:
        raise section.mistake(str(error), "sql") from error
    if faults:
        raise section.mistake("; ".join(faults), "sql")
    return True


def _watermarks(views: Mapping[str, RuleJob] | Mapping[str, Source]) -> dict[str, Watermark | None]:
    return {name: view.watermark for name, view in views.items()}


def _document(file: Path, noted: list[RuleFileError]) -> FileSection:
    try:
        document = FileSection(parse_file(file), noted=noted)
    except HoconError as error:
        raise RuleFileError(str(error)) from error
    document.read(Roots)
    return document


def _schemas(document: FileSection) -> tuple[SchemaSettings, ...]:
    # Imported where it is wanted: a pipeline without schemas needs none of their libraries.
    from heliograph.pipeline.datasource.schemas import read_schemas

    return read_schemas(document)


def _views_read(section: FileSection, settings: StreamSqlSettings, views: Sequence[str]) -> tuple[str, ...]:
    known = f"the rules and sources are: {', '.join(views) or 'none'}"
    for name in settings.views:
        if name not in views:
            raise section.mistake(f"{section.path.rpartition('.')[2]} reads from {name}, but {known}", "from")
    read = tuple(dict.fromkeys(settings.views)) or names_in(settings.sql, views)
    if not read:
        raise section.mistake(f"reads no rule and no source, but {known}", "sql")
    return read


def _check_whole(pipeline: Pipeline, path: Path) -> None:
    if not pipeline.query_names:
        raise RuleFileError(f"{path} has nothing to run: give a rule a sink, or add a job under stream_sql")
    targets: dict[str, str] = {}
    for name in pipeline.query_names:
        for target in pipeline.sink(name).owned:
            if target in targets:
                text = f"{name} and {targets[target]} both write {target}"
                raise RuleFileError(f"{pipeline.job(name).origin}: {text}")
            targets[target] = name


def read_source(name: str, section: FileSection) -> Source:
    settings = section.read(SourceSettings, others=_SOURCE_OPTIONS)
    options = dict(settings.options)
    for key, option in _SOURCE_OPTIONS.items():
        if key in section.fields:
            options[option] = str(section.fields[key].value)
    token = Secret.of(options.get("token", ""))
    if token.file is not None:  # relative to the pipeline file
        options["token"] = f"{FILE_PREFIX}{Path(section.node.position.source).parent / token.file}"
    if "schema" in options:
        options.setdefault("schemas", section.node.position.source)
    try:
        # The driver that reads it says which time zone its session has.
        SourceOptions.of({"timeZone": "UTC"} | {name: text for name, text in options.items() if name != "token"})
    except OptionError as error:
        raise section.mistake(str(error)) from error
    deduplicate = settings.deduplicate.columns if settings.deduplicate is not None else ()
    letters = settings.dead_letters
    source = Source(name, settings.topics, options, settings.watermark, deduplicate, section.origin, letters)
    if letters and (not source.is_decoded or options.get("mode", PERMISSIVE).upper() != PERMISSIVE):
        raise section.mistake(f"needs a schema that is not raw, and mode {PERMISSIVE}", "dead_letters")
    return source


def read_table(name: str, section: FileSection) -> StaticTable:
    """A static table of its section; a relative path begins at the file."""
    table = section.read(StaticTable, {"name": name, "origin": section.origin})
    path = table.path if "://" in table.path else str(Path(section.node.position.source).parent / table.path)
    defaults = {"header": "true", "inferSchema": "true"} if table.type == "csv" else {}
    return replace(table, path=path, options={**defaults, **table.options})


def names_in(sql: str, names: Iterable[str]) -> tuple[str, ...]:
    """Which of the names a query says outside of strings and comments, in their order; letter case does not matter."""
    words = {word.casefold() for word in _WORD.findall(_NOT_NAMES.sub(" ", sql))}
    return tuple(name for name in names if name.casefold() in words)
