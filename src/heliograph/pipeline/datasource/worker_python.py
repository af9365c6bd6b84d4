"""Which Python Spark's local workers run, where nothing says which: the one of the program, which has this package.

PySpark takes the `python3` of the PATH, which is another one where the program's environment is not activated. Workers
on other machines take what is named here too: there it has to be named before.
"""

import os
import sys
from functools import cache
from typing import Final

from pyspark import SparkContext

_OF_THE_PATH: Final = "python3"
_VARIABLES: Final = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
# Where Java started Python, as `spark-submit` and Spark's workers do, it has chosen already.
_STARTED_BY_JAVA: Final = ("PYSPARK_GATEWAY_PORT", "PYTHON_WORKER_FACTORY_PORT", "PYTHON_WORKER_FACTORY_SOCK_PATH")


@cache
def name_own_python() -> bool:
    """Name the Python of this process to the Spark that it may start later; whether nothing else named one.

    Called when `pyspark_heliograph` is imported. Spark looks for sources before anything of this package runs in the
    driver, so with a session that runs it is too late: `use_own_python` is for those.
    """
    is_unnamed = not any(os.environ.get(name) for name in (*_VARIABLES, *_STARTED_BY_JAVA))
    if is_unnamed and sys.executable:
        os.environ["PYSPARK_PYTHON"] = sys.executable
    return is_unnamed


def use_own_python() -> None:
    """Make a local session start its workers with the Python of this process, if nothing says which.

    Called when the source is registered, which is before Spark notes with which program its functions run. The workers
    of a cluster are other machines, and what is there its configuration says.
    """
    context = SparkContext._active_spark_context
    if context is None:
        return
    is_local = str(context.master).startswith("local")
    if is_local and context.pythonExec == _OF_THE_PATH:
        context.pythonExec = sys.executable
    elif not is_local and context.pythonExec == sys.executable and name_own_python():
        context.pythonExec = _OF_THE_PATH
