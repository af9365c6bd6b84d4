"""Reads the rule files of a pipeline: HOCON in, the values of `heliograph.pipeline.definition` out.

Every mistake is told with its file and line. The rules themselves are parsed here once, so that a mistake in the SQL of
any of them stops the driver before anything runs.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, TypeVar

from heliograph.hocon import HoconError, parse_file
from heliograph.pipeline.definition import Pipeline, RuleJob, StreamSqlJob, Watermark
from heliograph.pipeline.errors import RuleFileError
from heliograph.pipeline.section import Section
from heliograph.pipeline.sinks import OutputMode, read_sink
from heliograph.rules import CompiledRule, RuleSyntaxError
from heliograph.rules.spark import plan_rule

_Job = TypeVar("_Job", RuleJob, StreamSqlJob)

_SUFFIXES: Final = (".hocon", ".conf")


def load_pipeline(path: Path) -> Pipeline:
    """Read one rule file, or all rule files (``*.hocon``, ``*.conf``) of a directory, as one pipeline.

    Raises:
        RuleFileError: There is no such file, or something in one is not valid.
    """
    rules: dict[str, RuleJob] = {}
    stream_sql: dict[str, StreamSqlJob] = {}
    for file in _rule_files(path):
        try:
            document = Section(parse_file(file), Section.TOP)
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


def _rule(name: str, section: Section) -> RuleJob:
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
        return RuleJob(name, sql, columns, None, (), section.origin)
    required = sink.names("required")
    for column in required:
        if column not in outputs:
            told = f"{sink.path}.required names {column!r}, but the columns are {', '.join(outputs)}"
            raise sink.mistake(told, sink.fields["required"])
    return RuleJob(
        name, sql, columns, read_sink(sink, OutputMode.APPEND, "columns", "required"), required, section.origin
    )


def _stream_sql(name: str, section: Section) -> StreamSqlJob:
    section.check_keys("from", "sql", "mode", "watermark", "sink")
    mode_text = section.text("mode", OutputMode.APPEND.value)
    if mode_text not in [mode.value for mode in OutputMode]:
        raise section.mistake(f"{section.path}.mode is {mode_text!r}, but must be append, update or complete")
    sink_section = section.section("sink")
    if sink_section is None:
        raise section.mistake(f"{section.path} has no sink")
    mode = OutputMode(mode_text)
    sink = read_sink(sink_section, mode)
    source, sql = section.text("from"), section.text("sql")
    return StreamSqlJob(name, source, sql, mode, _watermark(section.section("watermark")), sink, section.origin)


def _watermark(section: Section | None) -> Watermark | None:
    if section is None:
        return None
    section.check_keys("column", "delay")
    return Watermark(section.text("column"), section.text("delay"))


def _add(jobs: dict[str, _Job], name: str, job: _Job, section: Section, taken: Sequence[str]) -> None:
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
    targets: dict[str, str] = {}
    for name in pipeline.query_names:
        entry = pipeline.stream_sql.get(name) or pipeline.rules[name]
        assert entry.sink is not None  # query_names has only those with one
        for target in entry.sink.owned:
            if target in targets:
                raise RuleFileError(f"{entry.origin}: {name} and {targets[target]} both write {target}")
            targets[target] = name
