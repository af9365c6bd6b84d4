"""The columns of a query's rows as far as they are known without Spark."""

from pyspark.sql.pandas.types import from_arrow_type

from heliograph.pipeline.files.definition import Job, RuleJob
from heliograph.pipeline.sinks.rows import RowField
from heliograph.rules.spark import plan_rule
from heliograph.rules.spark.output_types import output_type


def planned_fields(job: Job) -> tuple[RowField, ...] | None:
    """The columns of a rule's rows; None for a job in Spark SQL, of which only Spark knows them."""
    if not isinstance(job, RuleJob):
        return None
    outputs = plan_rule(job.sql, job.columns).outputs
    return tuple(RowField(name, from_arrow_type(output_type(kind).arrow).simpleString()) for name, kind in outputs)
