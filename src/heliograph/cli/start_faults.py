"""Checks what a valid configuration names: files and directories without which a node cannot start.

`heliograph conf check` looks at them as a start does, and changes nothing.
"""

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

from heliograph.config import Config
from heliograph.node.file_faults import Fault, file_faults


def start_faults(config: Config) -> Iterator[Fault]:
    """The path of each setting that would stop a start, and why."""
    yield from file_faults(config)
    yield from _data_dir(Path(config.node.data_dir))
    if config.pipeline.enable:
        yield from _pipeline(Path(config.pipeline.file))


def _data_dir(directory: Path) -> Iterator[Fault]:
    there = next(place for place in (directory.absolute(), *directory.absolute().parents) if place.exists())
    if not there.is_dir():
        yield ("node", "data_dir"), f"{str(directory)!r} cannot be used: {there} is no directory"
    elif not os.access(there, os.W_OK | os.X_OK):
        yield ("node", "data_dir"), f"{str(directory)!r} cannot be used: {there} cannot be written"


def _pipeline(file: Path) -> Iterator[Fault]:
    path = ("pipeline", "file")
    if importlib.util.find_spec("pyspark") is None:
        yield path, "pyspark is not installed: pip install 'heliograph[pipeline,sinks]'"
        return
    # Imported where a node has a pipeline: the others need no Spark.
    from heliograph.pipeline.errors import RuleFileError
    from heliograph.pipeline.files.rulefile import load_pipeline
    from heliograph.pipeline.sinks.libraries import library_fault

    try:
        pipeline = load_pipeline(file)
    except RuleFileError as error:
        yield from ((path, told) for told in error.mistakes)
        return
    for name in pipeline.query_names:
        fault = library_fault(pipeline.sink(name))
        if fault is not None:
            yield path, f"{pipeline.job(name).origin}: {name}: {fault}"
