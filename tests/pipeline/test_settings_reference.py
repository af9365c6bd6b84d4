"""The tables of settings in the documentation are the ones that the code describes."""

from pathlib import Path

from heliograph.config.description import table
from heliograph.pipeline.datasource.options import SourceOptions
from heliograph.pipeline.datasource.sink_options import SinkOptions
from heliograph.pipeline.files.definition import DeadLetterSettings, LateRowSettings, StaticTable
from heliograph.pipeline.files.settings import RuleSettings, SourceSettings, StreamSqlSettings
from heliograph.pipeline.sinks import sink_class
from heliograph.pipeline.sinks.retry import RetryPolicy
from heliograph.settings.outbound import OutboundConfig
from heliograph.settings.tls import ClientTls
from support.cases import cases

_DOCS = Path(__file__).parents[2] / "docs"
_SINKS = (_DOCS / "sinks.md").read_text(encoding="utf-8")
_PIPELINE = (_DOCS / "pipeline.md").read_text(encoding="utf-8")


@cases(
    ("heading", "kinds"),
    [
        ("### parquet, json, csv, orc\n", ("parquet", "json", "csv", "orc")),
        ("### delta\n", ("delta",)),
        ("### iceberg\n", ("iceberg",)),
        ("### postgresql\n", ("postgresql",)),
        ("### mysql\n", ("mysql",)),
        ("### redis\n", ("redis",)),
        ("### http\n", ("http",)),
        ("### clickhouse\n", ("clickhouse",)),
        ("### influxdb\n", ("influxdb",)),
        ("### elasticsearch\n", ("elasticsearch",)),
        ("### mongodb\n", ("mongodb",)),
        ("### disk_log\n", ("disk_log",)),
        ("### kafka\n", ("kafka",)),
        ("### mqtt\n", ("mqtt",)),
        ("### rabbitmq\n", ("rabbitmq",)),
        ("### nats\n", ("nats",)),
        ("### kinesis\n", ("kinesis",)),
        ("### dynamo\n", ("dynamo",)),
        ("### sqs\n", ("sqs",)),
        ("### spark\n", ("spark",)),
        ("### console\n", ("console",)),
    ],
)
def test_the_settings_of_each_sink_stand_in_its_section(heading: str, kinds: tuple[str, ...]) -> None:
    section = _SINKS.partition(heading)[2].partition("\n### ")[0]
    expected = table(*map(sink_class, kinds))
    assert expected in section, f"put this into the section of docs/sinks.md:\n{expected}"


@cases("group", [RetryPolicy, ClientTls])
def test_what_sinks_share_stands_there_once(group: type[object]) -> None:
    expected = table(group)
    assert _SINKS.count(expected) == 1, f"put this into docs/sinks.md:\n{expected}"


@cases(
    ("heading", "group"),
    [
        ("### sources\n", SourceSettings),
        ("### tables\n", StaticTable),
        ("### rules\n", RuleSettings),
        ("### stream_sql\n", StreamSqlSettings),
        ("## Dead letters\n", DeadLetterSettings),
        ("## Servers that a pipeline may connect to\n", OutboundConfig),
        ("## Late rows\n", LateRowSettings),
        ("## The data source\n", SourceOptions),
        ("## Publish from Spark\n", SinkOptions),
    ],
)
def test_the_settings_of_pipeline_files_and_options_stand_in_their_sections(heading: str, group: type[object]) -> None:
    section = _PIPELINE.partition(f"\n{heading}")[2].partition(f"\n{heading.partition(' ')[0]} ")[0]
    expected = table(group)
    assert expected in section, f"put this into the section of docs/pipeline.md:\n{expected}"
