"""Adds a rule to Spark's optimizer that has batch reads of this format give only the columns that a query uses.

Spark tells a source in Python nothing of its query but simple conditions, so a `count()` would read all columns; with
the rule it reads numbers of rows. The rule is in Java, in `ColumnPruning.java`, and is compiled by the compiler with
which Spark compiles its queries. It needs the Java process beside this one: through Spark Connect, or where Spark finds
the source by itself, all columns are read.
"""

import logging
from pathlib import Path
from typing import Any, Final

from pyspark import SparkContext
from pyspark.sql import SparkSession

_SOURCE: Final = "ColumnPruning.java"
_log = logging.getLogger(__name__)


def prune_columns() -> None:
    """Add the rule to the session of this process, if it has one; called when the source is registered."""
    if SparkContext._active_spark_context is None:
        return
    session = SparkSession.getActiveSession()
    if session is None:
        return
    try:
        add_rule(session, SparkContext._gateway)
    except Exception as error:  # noqa: BLE001 - whatever another version of Spark lacks, queries read all columns
        _log.warning("queries read all columns of stored messages: %s", str(error).partition("\n")[0])


def add_rule(session: SparkSession, gateway: Any) -> None:
    """Compile the rule, and add it to a session that lacks it; raises where its Spark does not take it."""
    name = _SOURCE.partition(".")[0]
    java: Any = session._jsparkSession
    experimental = java.experimental()
    rules = experimental.extraOptimizations()
    if any(rules.apply(at).getClass().getName() == name for at in range(rules.size())):
        return
    compiler = gateway.jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(java.getClass().getClassLoader())
    compiler.cook(Path(__file__).with_name(_SOURCE).read_text(encoding="utf-8"))
    (constructor,) = compiler.getClassLoader().loadClass(name).getDeclaredConstructors()
    rule = constructor.newInstance(gateway.new_array(gateway.jvm.Object, 0))
    getattr(experimental, "extraOptimizations_$eq")(rules.appended(rule))
