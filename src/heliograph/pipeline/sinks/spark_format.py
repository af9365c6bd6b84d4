"""The sink `spark`: rows in whatever format Spark can write, by its name and options."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from heliograph.pipeline.errors import SinkError, sentence_of
from heliograph.pipeline.sinks.interface import Guarantee, MicroBatch, OutputMode, TableSink, Written
from heliograph.pipeline.sinks.outward import OutwardSink
from heliograph.settings.fields import required, setting
from heliograph.settings.kinds import CodeName, Texts
from heliograph.settings.secrets import STARS
from heliograph.settings.url_secrets import without_url_secrets

_JAR: Final = "name its jar or package in Spark's settings (spark.jars, spark.jars.packages), and its driver in options"
# Of options, in any format.
_SECRET_NAME: Final = re.compile(r"(?i).*(passw|pwd|token|secret|credential|key$).*")
_ABSENT: Final = ("ClassNotFoundException", "NoClassDefFoundError", "No suitable driver", "DATA_SOURCE_NOT_FOUND")


@dataclass(frozen=True)
class SparkFormatSink(OutwardSink, TableSink):
    """Rows are added by `df.write.format(...).options(...).mode("append").save()`.

    Spark keeps no account of batches in such a target, so one that runs again adds its rows again.
    """

    guarantee: ClassVar[Guarantee] = Guarantee.AT_LEAST_ONCE
    modes: ClassVar[tuple[OutputMode, ...]] = (OutputMode.APPEND,)

    format: str = required(CodeName("the name of a format of Spark, such as jdbc"), "The format, by Spark's name.")
    options: Mapping[str, str] = setting(
        Texts(), {}, "Its options, by Spark's names; `path` is absolute or a URI.", is_secret=True
    )

    @property
    def target(self) -> str:
        return f"Spark's format {self.format}"

    def check_place(self) -> None:
        """Hold the servers that the options name against the file; nothing is connected to."""
        self.check_store("", self.options)

    def write(self, rows: DataFrame, batch: MicroBatch) -> Written:
        self.check_place()
        counted = Observation()
        writer = rows.observe(counted, F.count(F.lit(1)).alias("rows")).write
        try:
            writer.format(self.format).options(**self.options).mode("append").save()
        except Py4JJavaError as error:
            fault = str(error.java_exception.toString())
        except PySparkException as error:
            fault = sentence_of(error)
        else:
            return Written(None, {"rows": int(counted.get["rows"])})
        # Not `from` Spark's error, whose text goes to logs with its stack trace: it may show values of options.
        raise SinkError(f"{self.target}: {self._without_secrets(fault)}")

    def _without_secrets(self, fault: str) -> str:
        text = fault.partition("\n")[0]
        for name, value in self.options.items():
            if _SECRET_NAME.fullmatch(name) or value.startswith("jdbc:"):  # many drivers take a password in the URL
                text = text.replace(value, STARS)
        hint = f": {_JAR}" if any(sign in text for sign in _ABSENT) else ""
        return f"{without_url_secrets(text)}{hint}"
