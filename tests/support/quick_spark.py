"""What makes Spark cheap where batches have few rows: settings of a session, and the Python of its workers."""

from collections.abc import Mapping
from typing import Final

from support.python_copies import python

#: To compile code for a batch, or to plan again by its sizes, takes longer than to do it.
CONF: Final[Mapping[str, str]] = {
    "spark.default.parallelism": "2",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}

#: The same, with checkpoints that cost less; drivers that are killed within a batch have those of production.
SESSION: Final[Mapping[str, str]] = {
    **CONF,
    # The usual one has Hadoop start processes (readlink) where it renames a file.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}


def workers() -> dict[str, str]:
    """Environment variables of a process that starts Spark: its workers begin as copies of one that has loaded."""
    return dict.fromkeys(("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), python())
