"""Rule files: what they may say, and how their mistakes are told."""

import textwrap
from pathlib import Path

import pytest

from heliograph.pipeline.errors import RuleFileError
from heliograph.pipeline.files.definition import DeadLetterSettings, LateRowSettings, Watermark
from heliograph.pipeline.files.rulefile import load_pipeline
from heliograph.pipeline.sinks import OutputMode
from heliograph.pipeline.sinks.console import ConsoleSink
from heliograph.pipeline.sinks.mqtt import MqttSink
from heliograph.pipeline.sinks.parquet import ParquetSink
from support.cases import cases

_RULE = 'rules.r { sql = "SELECT payload.t AS t FROM \\"a/#\\"", '


def _mistake(tmp_path: Path, text: str) -> str:
    file = tmp_path / "p.hocon"
    file.write_text(text)
    with pytest.raises(RuleFileError) as caught:
        load_pipeline(file)
    return str(caught.value).replace(str(file), "p.hocon")


def test_the_rules_of_the_weather_example() -> None:
    pipeline = load_pipeline(Path(__file__).parents[2] / "examples" / "weather" / "rules")
    assert pipeline.query_names == ["weather_obs", "wind_alerts", "daily"]
    assert pipeline.rules["weather_obs"].sink == ParquetSink("obs", partition_by=("station",))
    assert pipeline.rules["weather_obs"].columns["observed_at"] == "timestamp"
    assert pipeline.rules["wind_alerts"].sink == MqttSink("alerts/wind/${station}")
    daily = pipeline.stream_sql["daily"]
    assert (daily.views, daily.mode) == (("weather_obs",), OutputMode.UPDATE)
    assert daily.watermark == Watermark("observed_at", "31 days")


def test_the_rule_file_of_the_documentation(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "pipeline.md").read_text(encoding="utf-8")
    begin, end = page.index("    rules {\n"), page.index("A **rule** is")
    file = tmp_path / "rules.hocon"
    file.write_text(textwrap.dedent(page[begin:end]))
    pipeline = load_pipeline(file)
    assert pipeline.query_names == ["weather_obs", "daily"]
    assert pipeline.rules["weather_obs"].watermark == Watermark("observed_at", "2 days")
    assert (pipeline.stream_sql["daily"].views, pipeline.stream_sql["daily"].tables) == (
        ("weather_obs",),
        ("airports",),
    )


def test_the_files_of_a_directory_are_one_pipeline(tmp_path: Path) -> None:
    (tmp_path / "a.hocon").write_text('rules.a { sql = "SELECT topic FROM \\"a\\"" }')
    (tmp_path / "b.conf").write_text(
        'stream_sql.b { from = a, sql = "SELECT count(*) AS n FROM a", mode = complete, sink {type=console, rows=5}}'
    )
    (tmp_path / "notes.txt").write_text("not a rule file")
    pipeline = load_pipeline(tmp_path)
    assert pipeline.query_names == ["b"]
    assert pipeline.stream_sql["b"].sink == ConsoleSink(5)


@cases(
    ("text", "told"),
    [
        ("", "p.hocon has nothing to run: give a rule a sink"),
        ("rules = 5", "p.hocon:1: rules: found a number, expected an object"),
        ("rulez {}", "p.hocon:1: rulez: unknown key; did you mean rules?"),
        ("rules {\n  r { sink { type = console } } }", "p.hocon:2: rules.r.sql: is missing, expected a rule"),
        ("rules { r-1 { sql = x } }", "p.hocon:1: rules.r-1: 'r-1' is not a name"),
        (_RULE + "sink { type = parkett } }", "rules.r.sink.type: found 'parkett', expected one of "),
        (_RULE + "sink { type = parquet } }", "rules.r.sink.path: is missing, expected a path"),
        (_RULE + 'sink { type = parquet, path = "../x" } }', "expected a path below the output directory"),
        (
            _RULE + "sink { type = parquet, path = x, partition_by = station } }",
            'rules.r.sink.partition_by: found "station", expected a list',
        ),
        (
            _RULE + "sink { type = mqtt, topic = x, qos = 3 } }",
            "sink.qos: found 3, expected an integer from 0 to 2",
        ),
        (_RULE + "sink { type = mqtt, topic = x, retian = true } }", "did you mean retain?"),
        (_RULE + "sink { type = mqtt, topic = x, server = here } }", "expected host:port"),
        ('rules.r { sql = "SELECT FROM" , sink { type = console } }', "p.hocon:1: rules.r.sql: line 1, column 8"),
        ("rules { r {", "p.hocon:1"),
        (_RULE + "columns { t = time_stamp } }", "rules.r.columns: 'time_stamp' is no type of an output column"),
        (
            _RULE + 'columns { t = "array<time_stamp>" } }',
            "rules.r.columns: 'time_stamp' is no type of an output column",
        ),
        (
            _RULE + "sink { type = console, required = [g] } }",
            "sink.required: names 'g', but the columns are t",
        ),
    ],
)
def test_a_mistake_in_a_rule_is_told_with_its_place(tmp_path: Path, text: str, told: str) -> None:
    assert told in _mistake(tmp_path, text)


def test_sources_tables_and_named_sinks(tmp_path: Path) -> None:
    file = tmp_path / "p.hocon"
    file.write_text(
        """
        sources {
          raw { topics = ["a/#", "b"], database = other, start = latest
                watermark { column = stored_at, delay = "1 hour" }, deduplicate { columns = [guid] } }
        }
        tables.places {
          type = csv, path = "places.csv", options { sep = "\\t", header = true, samplingRatio = 0.5 }
        }
        sinks { screen { type = console, rows = 3, required = [t] } }
        rules {
          quiet { sql = "SELECT payload.t AS t FROM \\"a/#\\"", source = raw }
          loud { sql = "SELECT payload.t AS t FROM \\"c\\"", sink = screen }
        }
        stream_sql {
          both { sql = "SELECT q.t, 'loud' FROM Quiet q JOIN raw /* loud */ JOIN places -- loud", sink = screen }
        }
        dead_letters { path = letters, max_rows_per_batch = 10, retention = infinity }
        late { path = too_late, retention = 2d, max_bytes = 5MB }
        """
    )
    pipeline = load_pipeline(file)
    assert pipeline.query_names == ["loud", "both"]
    assert (pipeline.stream_sql["both"].views, pipeline.stream_sql["both"].tables) == (("quiet", "raw"), ("places",))
    assert pipeline.sink("both") == pipeline.sink("loud") == ConsoleSink(3)
    assert pipeline.rules["loud"].required == ("t",)
    raw = pipeline.sources["raw"]
    assert (raw.topics, raw.deduplicate) == (("a/#", "b"), ("guid",))
    assert dict(raw.options) == {"database": "other", "start": "latest"}
    places = pipeline.tables["places"]
    assert (places.path, places.options["sep"]) == (str(tmp_path / "places.csv"), "\t")
    assert (places.options["header"], places.options["samplingRatio"]) == ("true", "0.5")
    assert pipeline.dead_letters == DeadLetterSettings("letters", None, batch_rows_max=10)
    assert pipeline.late == LateRowSettings("too_late", 2 * 86_400, 5 << 20)


@cases(
    ("text", "told"),
    [
        ("sources.s {}", "p.hocon:2: sources.s.topics: is missing, expected a topic filter"),
        ('sources.s { topics = ["a/#/b"] }', "sources.s.topics: found a list of 1, expected a topic filter"),
        ("sources.s { topics = [a], start = soon }", "sources.s: option start is 'soon', but must be"),
        ("sources.s { topics = [a], deduplicate { columns = [x] } }", "sources.s.deduplicate: needs a watermark"),
        ("sources.r { topics = [a] }", "the name r is given twice: sources.r and rules.r need their own"),
        ("tables.t { type = excel, path = x }", 'tables.t.type: found "excel", expected csv, delta'),
        ('rules.s { sql = "SELECT topic FROM \\"a\\"", sink = nowhere }', "found 'nowhere', but the sinks are: none"),
        ('rules.s { sql = "SELECT topic FROM \\"a\\"", source = q }', "found 'q', but the sources are: none"),
        ("sinks.s { type = parkett }", "sinks.s.type: found 'parkett', expected one of"),
        (
            'stream_sql.j { sql = "SELECT 1", sink { type = console } }',
            "reads no rule and no source, but the rules and",
        ),
        ("late { max_bytes = lots }", 'late.max_bytes: found "lots", expected a size of at least 1B, or infinity'),
        ("late { path = dead_letters }", "dead_letters.path and late.path are both 'dead_letters'"),
        ("dead_letters { retention = soon }", 'dead_letters.retention: found "soon", expected a duration'),
    ],
)
def test_a_mistake_elsewhere_is_told_with_its_place(tmp_path: Path, text: str, told: str) -> None:
    assert told in _mistake(tmp_path, f"{_RULE}sink {{ type = console }} }}\n{text}")


@cases(
    ("job", "told"),
    [
        ("from = r, sql = x", "stream_sql.j.sink: is missing"),
        ("from = q, sql = x, sink { type = console }", "j reads from q, but the rules and sources are: r"),
        ("from = r, sql = x, mode = all, sink { type = console }", "expected append, update or complete"),
        ("from = r, sql = x, mode = update, sink { type = parquet, path = x }", "has no key: mode update needs"),
        (
            "from = r, sql = x, mode = complete, sink { type = parquet, path = x, partition_by = [a] }",
            "partition_by: is for mode append",
        ),
        (
            "from = r, sql = x, watermark { column = a }, sink { type = console }",
            "j.watermark.delay: is missing",
        ),
    ],
)
def test_a_mistake_in_a_spark_sql_job_is_told_with_its_place(tmp_path: Path, job: str, told: str) -> None:
    assert told in _mistake(tmp_path, f"{_RULE}}}\nstream_sql.j {{ {job} }}")


def test_two_queries_cannot_write_one_table(tmp_path: Path) -> None:
    sink = "sink { type = parquet, path = x } }\n"
    text = _RULE + sink + _RULE.replace("rules.r", "rules.s") + sink
    assert "s and r both write the table x" in _mistake(tmp_path, text)


def test_a_path_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(RuleFileError, match="nothere is neither a pipeline file nor a directory of pipeline files"):
        load_pipeline(tmp_path / "nothere")


def test_every_mistake_of_a_file_is_told_at_once(tmp_path: Path) -> None:
    told = _mistake(
        tmp_path,
        """
rules {
  typo { sql = "SELECT payload.t AS t FROM \\"a/#\\"", colums { t = double }, sink { type = consol } }
  calls { sql = "SELECT avarage(payload.t) AS t, nothing_like_it(1) AS n FROM \\"a/#\\"", sink { type = console } }
  broken { sql = "SELEC 1", source = nowhere, sink { type = parquet } }
}
sources.there { topics = "a/#", start = 1767225600000 }
stream_sql {
  of_broken { sql = "SELECT * FROM broken JOIN there", mode = apend, sink { type = console } }
  fine { sql = "SELECT * FROM broken", sink { type = console } }
}
sinks.unused { type = kafka, topic = t }
late { path = dead_letters }
""",
    ).splitlines()
    wanted = [
        "p.hocon:7: sources.there: option start is '1767225600000', but must be microseconds",
        "p.hocon:3: rules.typo.colums: unknown key; did you mean columns?",
        "p.hocon:3: rules.typo.sink.type: found 'consol', expected one of",
        "p.hocon:4: rules.calls.sql: it calls avarage, but there is no such function; it calls nothing_like_it",
        "p.hocon:5: rules.broken.source: found 'nowhere', but the sources are: there",
        "p.hocon:5: rules.broken.sql: ",
        "p.hocon:5: rules.broken.sink.path: is missing",
        'p.hocon:9: stream_sql.of_broken.mode: found "apend"',
        "p.hocon:12: sinks.unused.servers: is missing",
        "p.hocon:13: late: dead_letters.path and late.path are both",
    ]
    for start in wanted:
        assert any(line.startswith(start) for line in told), (start, told)
    assert not [line for line in told if line.startswith("p.hocon:10")]
