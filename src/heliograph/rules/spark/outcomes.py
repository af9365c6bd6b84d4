"""What became of each message under a rule: its output rows, or why it failed. `apply_rule` gives the rows alone.

The broker's engine runs in an Arrow UDF whatever the rule, since Spark's own expressions tell no reasons.
"""

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - what everyone calls it

from heliograph.rules.evaluator import CompiledRule
from heliograph.rules.schemas.settings import SchemaSettings
from heliograph.rules.spark.frames import arrow_function
from heliograph.rules.spark.plan import plan_rule
from heliograph.rules.spark.rows import generating_function, struct_of_all_ddl


def evaluate_outcomes(
    df: DataFrame,
    rule: CompiledRule | str,
    output_types: Mapping[str, str] | None = None,
    schemas: tuple[SchemaSettings, ...] = (),
) -> DataFrame:
    """Return the messages of the rule's topics, each with what became of it.

    Args:
        df: Messages in the public schema, with all columns that the rule reads.
        output_types: Spark type by output column, as for `apply_rule`.

    Returns:
        The columns of `df`; `error`, null where the rule did not fail; and `rows`, an array of structs with the output
        columns, empty or null where the message gave none.
    """
    plan = plan_rule(rule, output_types)
    function = generating_function(plan.rule.text, plan.outputs, plan.reads, schemas=schemas)
    evaluate = arrow_function(function, struct_of_all_ddl(plan.outputs))
    arguments = [F.unix_micros(F.col(name)) if name == "received_at" else F.col(name) for name in plan.reads]
    fields = ", ".join(f"`{name.replace('`', '``')}`: {kind}" for name, kind in plan.outputs)
    judged = df.filter(F.expr(plan.topics_sql)).withColumn("judged", evaluate(*arguments))
    rows = F.col("judged.rows").cast(f"array<struct<{fields}>>")
    return judged.select(*df.columns, F.col("judged.error").alias("error"), rows.alias("rows"))
