"""Starts and ends Spark sessions the way the pipeline wants them: quiet, in UTC, and on the loopback only.

A session of a ``local`` master opens its ports on 127.0.0.1, shows no web page, writes its log to a file, and knows the
data source ``heliograph``. Everything can be set otherwise by `conf`, in Spark's own names.
"""

import os
import re
import shutil
import sys
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from heliograph.pipeline.errors import OptionError
from heliograph.pipeline.running.ranges import register_sources
from heliograph.pipeline.spark.gateway import end_gateway, launch_gateway
from heliograph.pipeline.spark.jre import find_java

_DEFAULTS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "1g",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stopTimeout": "60s",
    # One message may fail a rule and a whole batch must not: the rule decides, so Spark's casts follow the ANSI rules.
    "spark.sql.ansi.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # A `where` on topic, time, client id or shard then narrows what the data source reads.
    "spark.sql.python.filterPushdown.enabled": "true",
    # A batch that a sink has already is not computed again. Its state was kept before it went to the sink, but Spark
    # would miss a new one, and the query fail and start again for nothing.
    "spark.sql.streaming.stateStore.commitValidation.enabled": "false",
    "spark.sql.parquet.compression.codec": "zstd",
    # A year of small batches would otherwise keep a page of numbers for each of them in memory.
    "spark.sql.streaming.numRecentProgressUpdates": "20",
}

_LOCAL: Final = {
    # Every port of a local session, so that nothing of it can be reached from another machine.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Spark's 200 are for a cluster: each is a task and a state store in every micro-batch of an aggregate.
    "spark.sql.shuffle.partitions": str(max(2, min(16, os.cpu_count() or 2))),
}

# Spark would refuse others only after its Java process has started, and on several lines.
_MASTER: Final = re.compile(r"local(-cluster)?(\[(\d+|\*)(,\s*\d+)*\])?|(spark|k8s)://.+|yarn")

# Spark asks for no value beyond the end of a column, nor for one that is null, so Arrow need not look at each time: a
# twelfth of what reading messages costs the Java process.
_ARROW: Final = ("-Darrow.enable_unsafe_memory_access=true", "-Darrow.enable_null_check_for_get=false")

_LOG4J: Final = """\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yyyy-MM-dd HH:mm:ss.SSS} %p %c{1}: %m%n%ex
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
logger.hostname.name = org.apache.spark.util.Utils
logger.hostname.level = error
logger.planned.name = org.apache.spark.sql.execution.streaming
logger.planned.level = error
"""


def start_session(
    master: str = "local[*]",
    app_name: str = "heliograph",
    conf: Mapping[str, str] | None = None,
    *,
    log_file: Path | None = None,
    pass_fds: Sequence[int] = (),
) -> SparkSession:
    """Start Spark with a Java process of its own and return the session, with the source ``heliograph`` registered.

    A process has at most one session that was started here; end it with `stop_session` before the next.

    Args:
        conf: Spark configuration that goes before the defaults of this module.
        log_file: Where Spark's log goes; None sends it to standard error.
        pass_fds: File descriptors that stay open for as long as the Java process lives.
    """
    settings = _settings(master, app_name, conf or {})
    # Spark starts its Python workers by these names; without them it would take whatever `python3` is on the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    with ExitStack() as undo:
        directory = Path(tempfile.mkdtemp(prefix="heliograph-spark-"))
        undo.callback(shutil.rmtree, directory, ignore_errors=True)
        log4j = directory / "log4j2.properties"
        log4j.write_text(_LOG4J)
        # Spark looks through error texts with recursive patterns, which need more stack than the usual 1 MB.
        options = [f"-Xmx{settings['spark.driver.memory']}", "-Xss4m", f"-Dlog4j2.configurationFile={log4j}", *_ARROW]
        gateway = launch_gateway(find_java(), settings, java_options=options, log_file=log_file, pass_fds=pass_fds)
        undo.callback(_forget_gateway, gateway)
        # The settings are properties of the Java process by now, beside those of a spark-defaults.conf.
        context = SparkContext(conf=SparkConf(_jvm=gateway.jvm), gateway=gateway)
        undo.pop_all()
    weakref.finalize(context, shutil.rmtree, directory, ignore_errors=True)
    session = SparkSession(context)
    register_sources(session)
    return session


def stop_session(session: SparkSession) -> None:
    """Stop a session of `start_session` and wait until its Java process has ended."""
    gateway = SparkContext._gateway
    with suppress(Py4JError, ConnectionError):  # of a Java process that has ended already
        session.stop()
    if gateway is not None:
        _forget_gateway(gateway)


@contextmanager
def spark_session(
    master: str = "local[*]",
    app_name: str = "heliograph",
    conf: Mapping[str, str] | None = None,
    *,
    log_file: Path | None = None,
) -> Iterator[SparkSession]:
    """Start a session for the length of a ``with`` block; see `start_session`."""
    session = start_session(master, app_name, conf, log_file=log_file)
    try:
        yield session
    finally:
        stop_session(session)


def _settings(master: str, app_name: str, conf: Mapping[str, str]) -> dict[str, str]:
    if not _MASTER.fullmatch(master):
        raise OptionError("master", master, "a Spark master such as local[*], spark://host:7077 or yarn")
    local = _LOCAL if master.startswith("local") else {}
    return {**_DEFAULTS, **local, **conf, "spark.master": master, "spark.app.name": app_name}


def _forget_gateway(gateway: object) -> None:
    # PySpark keeps the gateway in a class attribute and would use it, dead, for the next session.
    SparkContext._gateway = None
    SparkContext._jvm = None
    end_gateway(gateway)
