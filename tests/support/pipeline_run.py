"""The files of one pipeline, and the ways to run it."""

import json
import sys
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql import SparkSession

from heliograph.pipeline.files.rulefile import load_pipeline
from heliograph.pipeline.running.driver import BACKOFF, FileWatch, PipelineDriver
from heliograph.pipeline.running.figures import QueryFigures
from heliograph.pipeline.running.queries import RunSettings
from support.quick_spark import CONF

_HELIOGRAPH: Final = Path(sys.executable).with_name("heliograph")


class Run:
    """The files of one pipeline, and two ways to run it: in this process, or as a process of its own."""

    def __init__(self, directory: Path, endpoint: str) -> None:
        self.directory = directory
        self.endpoint = endpoint
        self.mqtt = "127.0.0.1:9"
        self.source: dict[str, str] = {}
        self.watch: FileWatch | None = None
        self.backoff = BACKOFF

    def write_rules(self, text: str) -> None:
        (self.directory / "pipeline.hocon").write_text(text)

    @property
    def file(self) -> Path:
        return self.directory / "pipeline.hocon"

    @property
    def checkpoint(self) -> Path:
        return self.directory / "checkpoint"

    @property
    def output(self) -> Path:
        return self.directory / "output"

    def settings(self, trigger_s: float | None = None) -> RunSettings:
        self.checkpoint.mkdir(exist_ok=True)
        source = {"endpoint": self.endpoint, **self.source}
        return RunSettings(self.checkpoint, self.output, self.mqtt, source, trigger_s)

    def driver(self, spark: SparkSession, trigger_s: float | None = None) -> PipelineDriver:
        settings = self.settings(trigger_s)
        return PipelineDriver(spark, load_pipeline(self.file), settings, watch=self.watch, backoff=self.backoff)

    def once(self, spark: SparkSession) -> dict[str, QueryFigures]:
        driver = self.driver(spark)
        assert driver.run(), driver.figures
        return {query.name: query for query in driver.figures}

    def command(self, *options: str, action: str = "run") -> list[str | Path]:
        places: list[str | Path] = ["--checkpoint", self.checkpoint, "--output", self.output]
        source: list[str | Path] = ["--endpoint", self.endpoint, "--master", "local[2]"]
        conf = [word for name, value in CONF.items() for word in ("--conf", f"{name}={value}")]
        return [_HELIOGRAPH, "pipeline", action, self.file, *places, *source, *conf, *options]

    def status(self) -> dict[str, dict[str, Any]]:
        """What the driver says about itself while it runs."""
        try:
            document = json.loads((self.checkpoint / "status.json").read_bytes())
        except FileNotFoundError:
            return {}
        return {query["name"]: query for query in document["queries"]}

    def table(self, name: str) -> pa.Table:
        """A table as a reader sees it that knows nothing of Spark or Heliograph."""
        return ds.dataset(self.output / name, format="parquet", partitioning="hive").to_table()

    def numbers(self) -> list[int]:
        return sorted(self.table("obs").column("n").to_pylist())
