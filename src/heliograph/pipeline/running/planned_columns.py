"""The columns of a query's rows as far as they are known without Spark."""

from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from heliograph.pipeline.files.definition import Job, RuleJob
from heliograph.rules.spark import plan_rule
from heliograph.rules.spark.output_types import output_type


def planned_schema(job: Job) -> StructType | None:
    """The columns of a rule's rows; None for a job in Spark SQL, of which only Spark knows them."""
    if not isinstance(job, RuleJob):
        return None
    outputs = plan_rule(job.sql, job.columns).outputs
    return StructType([StructField(name, from_arrow_type(output_type(kind).arrow)) for name, kind in outputs])
