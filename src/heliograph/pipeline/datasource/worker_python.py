"""The Python program of Spark's workers, where a session of a user's own leaves it to chance."""

import sys
from typing import Final

from pyspark import SparkContext

#: What PySpark takes where nothing names a program: whatever the PATH has, which may lack this package.
_OF_THE_PATH: Final = "python3"


def use_own_python() -> None:
    """Make a local session start its workers with the Python of this process, if nothing says which.

    Called when the source is registered, which is before Spark notes with which program its functions run. The workers
    of a cluster are other machines, and what is there its configuration says.
    """
    context = SparkContext._active_spark_context
    if context is not None and context.pythonExec == _OF_THE_PATH and str(context.master).startswith("local"):
        context.pythonExec = sys.executable
