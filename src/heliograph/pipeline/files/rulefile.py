"""Reads the files of a pipeline: HOCON in, the values of `heliograph.pipeline.files.definition` out.

All mistakes are reported at once, each with its file and line. The rules themselves are parsed here once, so that a
mistake in the SQL of any of them stops the driver before anything runs. What is wrong with Spark SQL, Spark reports
later (`heliograph.pipeline.running.validation`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from heliograph.hocon import HoconError, parse_file
from heliograph.pipeline.errors import RuleFileError
from heliograph.pipeline.files.definition import (
    DeadLetterSettings,
    LateRowSettings,
    Pipeline,
    RuleJob,
    Source,
    StreamSqlJob,
    Watermark,
)
from heliograph.pipeline.files.section import Section
from heliograph.pipeline.files.viewfile import names_in, read_deduplication, read_source, read_table, read_watermark
from heliograph.pipeline.side_outputs.retention import Retention
from heliograph.pipeline.sinks import OutputMode, Sink, read_sink
from heliograph.rules import CompiledRule, RuleSyntaxError
from heliograph.rules.calls import call_faults
from heliograph.rules.schemas.settings import SchemaSettings
from heliograph.rules.spark import plan_rule
from heliograph.settings.units import parse_duration, parse_size

_T = TypeVar("_T")

_SUFFIXES: Final = (".hocon", ".conf")
_ROOTS: Final = (
    "sources",
    "tables",
    "schemas",
    "schema_registry",
    "sinks",
    "rules",
    "stream_sql",
    "dead_letters",
    "late",
)
_SCHEMA_ROOTS: Final = frozenset({"schemas", "schema_registry"})
_VERSIONS: Final = range(1, 10_000)


def load_pipeline(path: Path) -> Pipeline:
    """Read one file, or all pipeline files (``*.hocon``, ``*.conf``) of a directory, as one pipeline.

    Raises:
        RuleFileError: There is no such file, or something in one is not valid; with all that is wrong.
    """
    return _Reader(path).read()


def pipeline_files(path: Path) -> Sequence[Path]:
    """The files of a pipeline.

    Raises:
        RuleFileError: There are none.
    """
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES)
        if not files:
            raise RuleFileError(f"{path} has no pipeline files: they end with {' or '.join(_SUFFIXES)}")
        return files
    if not path.is_file():
        raise RuleFileError(f"{path} is neither a pipeline file nor a directory of pipeline files")
    return [path]


class _Reader:
    """Reads the files of one pipeline; used once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._files = tuple(pipeline_files(path))
        self._mistakes: list[RuleFileError] = []
        read = [self._attempt(partial(_document, file, self._mistakes), None) for file in self._files]
        self._documents = [document for document in read if document is not None]
        self._names: dict[str, str] = {}
        self._sinks = dict(self._sections("sinks"))
        self._sinks_used: set[str] = set()

    def read(self) -> Pipeline:
        with_schemas = [document for document in self._documents if _SCHEMA_ROOTS & document.fields.keys()]
        none: tuple[SchemaSettings, ...] = ()
        read = [self._attempt(partial(_schemas, document), none) for document in with_schemas]
        schemas = tuple(schema for some in read for schema in some)
        sources = self._all("sources", read_source)
        tables = self._all("tables", read_table)
        rules = self._all("rules", self._rule)
        # Also of those with a mistake of their own, which has been noted.
        views = {**dict.fromkeys(self._named("rules", "sources")), **_watermarks(rules), **_watermarks(sources)}
        names = self._named("tables")
        jobs = self._all("stream_sql", lambda name, section: self._stream_sql(name, section, views, names))
        for name, section in self._sinks.items():
            if name not in self._sinks_used:
                self._attempt(partial(read_sink, section, OutputMode.APPEND, "columns", "required"), None)
        settings, late_settings = self._attempt(self._side_tables, (DeadLetterSettings(), LateRowSettings()))
        pipeline = Pipeline(rules, jobs, sources, tables, schemas, settings, late_settings, self._files)
        if not self._mistakes:
            self._attempt(lambda: _check_whole(pipeline, self._path), None)
        if self._mistakes:
            raise RuleFileError(*dict.fromkeys(told for mistake in self._mistakes for told in mistake.mistakes))
        return pipeline

    def _attempt(self, read: Callable[[], _T], otherwise: _T) -> _T:
        """What a part of the files says; a mistake in it is noted, and the rest is read."""
        try:
            return read()
        except RuleFileError as mistake:
            self._mistakes.append(mistake)
            return otherwise

    def _side_tables(self) -> tuple[DeadLetterSettings, LateRowSettings]:
        letters, late = self._last("dead_letters"), self._last("late")
        settings = DeadLetterSettings() if letters is None else _dead_letters(letters)
        late_settings = LateRowSettings() if late is None else _late(late)
        if settings.path == late_settings.path:
            told = f"dead_letters.path and late.path are both {settings.path!r}: each needs a table of its own"
            raise (late or letters or self._documents[0]).mistake(told)
        return settings, late_settings

    def _named(self, *keys: str) -> list[str]:
        """The names of all sections of some kinds, whatever is in them."""
        return [name for key in keys for name, _ in self._sections(key)]

    def _last(self, key: str) -> Section | None:
        found = [section for document in self._documents if (section := document.section(key)) is not None]
        return found[-1] if found else None

    def _sections(self, key: str) -> Iterator[tuple[str, Section]]:
        for document in self._documents:
            none: list[tuple[str, Section]] = []
            yield from self._attempt(partial(document.sections, key), none)

    def _all(self, key: str, read: Callable[[str, Section], _T | None]) -> dict[str, _T]:
        found: dict[str, _T] = {}
        for name, section in self._sections(key):
            self._attempt(partial(self._take_name, key, name, section), None)
            value = self._attempt(partial(read, name, section), None)
            if value is not None:
                found[name] = value
        return found

    def _take_name(self, key: str, name: str, section: Section) -> None:
        section.check_name(name)
        # Views, tables and queries share their names: a query's SQL tells them apart by nothing else.
        if name.casefold() in self._names:
            other = self._names[name.casefold()]
            raise section.mistake(f"the name {name} is given twice: {other} and {key}.{name} need their own")
        self._names[name.casefold()] = f"{key}.{name}"

    def _rule(self, name: str, section: Section) -> RuleJob | None:
        section.check_keys("sql", "columns", "sink", "required", "source", "watermark", "deduplicate", "version")
        source = self._attempt(partial(self._source_of, section), None)
        sink_section = self._attempt(partial(self._sink_section, section), None)
        if self._attempt(partial(_check_sql, section), None) is None:
            if sink_section is not None:
                self._attempt(partial(self._sink, section, sink_section, OutputMode.APPEND, None), None)
            return None
        sql = section.text("sql")
        columns = {**section.texts("columns"), **(sink_section.texts("columns") if sink_section is not None else {})}
        try:
            outputs = [output for output, _ in plan_rule(sql, columns).outputs]
        except ValueError as error:
            raise section.mistake(f"{section.path}.columns: {error}") from error
        watermark = read_watermark(section.section("watermark"))
        if watermark is not None and watermark.column not in outputs:
            told = f"{section.path}.watermark.column is {watermark.column!r}, but the columns are {', '.join(outputs)}"
            raise section.mistake(told, section.fields["watermark"])
        nothing: tuple[Sink | None, tuple[str, ...]] = (None, ())
        sink, required = self._attempt(partial(self._sink, section, sink_section, OutputMode.APPEND, outputs), nothing)
        return RuleJob(
            name=name,
            sql=sql,
            columns=columns,
            sink=sink,
            required=required,
            origin=section.origin,
            source=source,
            watermark=watermark,
            deduplicate=read_deduplication(section, watermark),
            version=section.number("version", 1, _VERSIONS),
        )

    def _source_of(self, section: Section) -> str | None:
        source, sources = section.optional_text("source"), self._named("sources")
        if source is not None and source not in sources:
            told = f"{section.path}.source is {source!r}, but the sources are: {', '.join(sources) or 'none'}"
            raise section.mistake(told, section.fields["source"])
        return source

    def _stream_sql(
        self, name: str, section: Section, views: Mapping[str, Watermark | None], tables: Sequence[str]
    ) -> StreamSqlJob:
        section.check_keys("from", "sql", "mode", "watermark", "sink", "required", "version")
        mode_text = section.text("mode", OutputMode.APPEND.value)
        if mode_text not in [mode.value for mode in OutputMode]:
            raise section.mistake(f"{section.path}.mode is {mode_text!r}, but must be append, update or complete")
        mode = OutputMode(mode_text)
        sql = section.text("sql")
        read = _views_read(section, sql, list(views))
        watermark = read_watermark(section.section("watermark"))
        if watermark is not None and len(read) > 1:
            raise section.mistake(
                f"{section.path}.watermark is not clear, since the job reads {', '.join(read)}: give each of them its "
                "own watermark, where it is defined",
                section.fields["watermark"],
            )
        sink, required = self._sink(section, self._sink_section(section), mode, None)
        if sink is None:
            raise section.mistake(f"{section.path} has no sink")
        return StreamSqlJob(
            name=name,
            views=read,
            sql=sql,
            mode=mode,
            sink=sink,
            watermark=watermark,
            tables=names_in(sql, tables),
            required=required,
            origin=section.origin,
            version=section.number("version", 1, _VERSIONS),
        )

    def _sink_section(self, section: Section) -> Section | None:
        node = section.fields.get("sink")
        if node is None or not isinstance(node.value, str):
            return section.section("sink")
        if node.value not in self._sinks:
            known = ", ".join(self._sinks) or "none"
            raise section.mistake(f"{section.path}.sink is {node.value!r}, but the sinks are: {known}", node)
        self._sinks_used.add(node.value)
        return self._sinks[node.value]

    def _sink(
        self, section: Section, sink: Section | None, mode: OutputMode, outputs: Sequence[str] | None
    ) -> tuple[Sink | None, tuple[str, ...]]:
        if sink is None:
            return None, ()
        required = tuple(dict.fromkeys((*sink.names("required"), *section.names("required"))))
        where = sink if "required" in sink.fields else section
        for column in required:
            if outputs is not None and column not in outputs:
                told = f"{where.path}.required names {column!r}, but the columns are {', '.join(outputs)}"
                raise where.mistake(told, where.fields["required"])
        return read_sink(sink, mode, "columns", "required"), required


def _check_sql(section: Section) -> bool:
    """True if there is a rule that can be run; calls of functions that there are not fail for every message."""
    sql = section.text("sql")
    try:
        faults = list(call_faults(CompiledRule(sql).tree))
    except RuleSyntaxError as error:
        raise section.mistake(f"{section.path}.sql: {error}", section.fields["sql"]) from error
    if faults:
        raise section.mistake(f"{section.path}.sql: {'; '.join(faults)}", section.fields["sql"])
    return True


def _watermarks(views: Mapping[str, RuleJob] | Mapping[str, Source]) -> dict[str, Watermark | None]:
    return {name: view.watermark for name, view in views.items()}


def _document(file: Path, noted: list[RuleFileError]) -> Section:
    try:
        document = Section(parse_file(file), Section.TOP, noted)
    except HoconError as error:
        raise RuleFileError(str(error)) from error
    document.check_keys(*_ROOTS)
    return document


def _schemas(document: Section) -> tuple[SchemaSettings, ...]:
    # Imported where it is wanted: a pipeline without schemas needs none of their libraries.
    from heliograph.pipeline.datasource.schemas import read_schemas

    return read_schemas(document)


def _views_read(section: Section, sql: str, views: Sequence[str]) -> tuple[str, ...]:
    known = f"the rules and sources are: {', '.join(views) or 'none'}"
    if "from" in section.fields:
        is_one = isinstance(section.fields["from"].value, str)
        named = (section.text("from"),) if is_one else section.names("from")
        for name in named:
            if name not in views:
                job = section.path.rpartition(".")[2]
                raise section.mistake(f"{job} reads from {name}, but {known}", section.fields["from"])
        return tuple(dict.fromkeys(named))
    read = names_in(sql, views)
    if not read:
        raise section.mistake(f"{section.path}.sql reads no rule and no source, but {known}", section.fields["sql"])
    return read


def _dead_letters(section: Section) -> DeadLetterSettings:
    section.check_keys("path", "max_rows_per_batch", "retention", "max_bytes")
    path = _path_below(section, DeadLetterSettings.path)
    rows_max = section.number("max_rows_per_batch", DeadLetterSettings.batch_rows_max, range(1, 10_000_001))
    return DeadLetterSettings(path, rows_max, _retention(section))


def _late(section: Section) -> LateRowSettings:
    section.check_keys("path", "retention", "max_bytes")
    return LateRowSettings(_path_below(section, LateRowSettings.path), _retention(section))


def _path_below(section: Section, default: str) -> str:
    path = section.text("path", default)
    if Path(path).is_absolute() or ".." in Path(path).parts:
        raise section.mistake(f"{section.path}.path is {path!r}, but must be a path below the output directory")
    return path


def _retention(section: Section) -> Retention:
    age_s = _limit(section, "retention", parse_duration, "a duration such as 30d", Retention.age_s)
    bytes_max = _limit(section, "max_bytes", parse_size, "a size such as 10GB", Retention.bytes_max)
    return Retention(age_s, bytes_max)


def _limit(section: Section, key: str, parse: Callable[[str], _T], valid: str, default: _T | None) -> _T | None:
    if key not in section.fields:
        return default
    text = section.text(key)
    try:
        return None if text == "infinity" else parse(text)
    except ValueError as error:
        told = f"{section.path}.{key} is {text!r}, but must be {valid}, or infinity"
        raise section.mistake(told, section.fields[key]) from error


def _check_whole(pipeline: Pipeline, path: Path) -> None:
    if not pipeline.query_names:
        raise RuleFileError(f"{path} has nothing to run: give a rule a sink, or add a job under stream_sql")
    targets: dict[str, str] = {}
    for name in pipeline.query_names:
        for target in pipeline.sink(name).owned:
            if target in targets:
                told = f"{name} and {targets[target]} both write {target}"
                raise RuleFileError(f"{pipeline.job(name).origin}: {told}")
            targets[target] = name
