"""Dead letters: the messages on which a rule failed and the rows that a sink refused, kept with reason and position.

A query counts such rows while it writes a micro-batch, which costs next to nothing. Only where there are any, the
messages of the batch are read again by the offsets in the checkpoint, judged by the rule, and the refused ones written
to the dead-letter table before the batch is done. So a batch without refused rows is evaluated once, one that is
interrupted has its letters written when it runs again, and no letter is written twice.

Reading the letters is `heliograph.pipeline.side_outputs.dead_letter_table`'s, and bringing them to the sink after all
`heliograph.pipeline.side_outputs.letter_replay`'s.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from typing import Any, Final, TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from heliograph.pipeline.datasource.decoding import DECODE_ERROR
from heliograph.pipeline.datasource.schema import MESSAGE_SCHEMA
from heliograph.pipeline.files.definition import RuleJob
from heliograph.pipeline.side_outputs.refused_rows import RefusedRow
from heliograph.pipeline.sinks.spark.template_columns import quoted
from heliograph.rules.schemas.settings import SchemaSettings
from heliograph.rules.spark.frames import evaluate_outcomes

logger = logging.getLogger(__name__)

#: What refused a row: the rule failed, a column that the sink requires was null, the sink would not have it, or the
#: schema of a source did not fit the payload.
RULE: Final = "rule"
REQUIRED: Final = "required"
SINK: Final = "sink"
DECODE: Final = "decode"

Schemas: TypeAlias = tuple[SchemaSettings, ...]

_MESSAGE: Final = tuple(MESSAGE_SCHEMA.fieldNames())

#: The columns of a dead letter: why, what, when; then the message, and the output row where there is one.
LETTER_SCHEMA: Final = StructType(
    [
        StructField("rule", StringType()),
        StructField("cause", StringType()),
        StructField("reason", StringType()),
        StructField("query", StringType()),
        StructField("batch", LongType()),
        StructField("refused_at", TimestampType()),
        *MESSAGE_SCHEMA.fields,
        StructField("row", StringType()),
        StructField("replayed_at", TimestampType()),
    ]
)


@dataclass(frozen=True)
class LetterHead:
    """What all dead letters of a micro-batch say: the time, the query, and the number of the batch."""

    at: datetime
    query: str
    batch: int


def letters_of_rule(messages: DataFrame, rule: RuleJob, schemas: Schemas, head: LetterHead) -> DataFrame:
    """The dead letters of one rule among messages: those on which it failed, and rows without a required column."""
    judged = evaluate_outcomes(messages, rule.sql, rule.columns, schemas)
    failed = _letters(judged.where("error IS NOT NULL"), rule.name, RULE, F.col("error"), None, head)
    if not rule.required or head.query != rule.name:
        return failed
    each = judged.where("error IS NULL").select(*_MESSAGE, F.explode("rows").alias("out"))
    absent = [F.when(F.col(f"out.{quoted(column)}").isNull(), F.lit(column)) for column in rule.required]
    reason = F.concat(F.lit("without a value, but required: "), F.concat_ws(", ", *absent))
    lacking = each.where(reduce(lambda one, two: one | two, [column.isNotNull() for column in absent]))
    return failed.unionByName(_letters(lacking, rule.name, REQUIRED, reason, _json("out"), head))


def letters_of_source(messages: DataFrame, source: str, head: LetterHead) -> DataFrame:
    """The dead letters of a source among its messages: those that could not be decoded."""
    failed = messages.where(F.col(DECODE_ERROR).isNotNull())
    return _letters(failed, source, DECODE, F.col(DECODE_ERROR), None, head)


def letters_of_sink(
    session: SparkSession,
    refusals: Sequence[RefusedRow],
    schema: StructType,
    judged: DataFrame | None,
    head: LetterHead,
) -> DataFrame:
    """The dead letters of rows that a sink refused; a job in Spark SQL has no single message for a row."""
    values = [(*(refusal.row.get(name) for name in schema.fieldNames()), refusal.reason) for refusal in refusals]
    typed = StructType(list(schema.fields)).add("_reason", "string")
    rows = session.createDataFrame(values, typed, verifySchema=False)
    values_of = F.struct(*(F.col(quoted(name)) for name in schema.fieldNames()))
    refused = rows.select(F.to_json(values_of).alias("row"), F.col("_reason"))
    if judged is None:
        return _letters(refused, head.query, SINK, F.col("_reason"), F.col("row"), head)
    each = judged.where("error IS NULL").select(*_MESSAGE, F.explode("rows").alias("out"))
    made = each.select(*_MESSAGE, _json("out").alias("row"))
    # Messages of equal rows were refused alike, so each distinct row finds all of its messages.
    found = refused.dropDuplicates(["row"]).join(made, "row", "left")
    return _letters(found, head.query, SINK, F.col("_reason"), F.col("row"), head)


def letters_without_message(session: SparkSession, refusals: Sequence[RefusedRow], head: LetterHead) -> DataFrame:
    """The dead letters, as text, of refused rows whose values Spark cannot hold."""
    rows = [(str(dict(refusal.row)), refusal.reason) for refusal in refusals]
    frame = session.createDataFrame(rows, "row string, _reason string")
    return _letters(frame, head.query, SINK, F.col("_reason"), F.col("row"), head)


def _letters(rows: DataFrame, rule: str, cause: str, reason: Any, row: Any, head: LetterHead) -> DataFrame:
    values = {
        "rule": F.lit(rule),
        "cause": F.lit(cause),
        "reason": reason,
        "query": F.lit(head.query),
        "batch": F.lit(head.batch),
        "refused_at": F.lit(head.at),
        "row": F.lit(None) if row is None else row,
        "replayed_at": F.lit(None),
    }
    columns = []
    for field in LETTER_SCHEMA.fields:
        known = F.col(f"`{field.name}`") if field.name in rows.columns else F.lit(None)
        columns.append(values.get(field.name, known).cast(field.dataType).alias(field.name))
    return rows.select(*columns)


def _json(column: str) -> Any:
    return F.to_json(F.col(column))
