"""What a Python process that Spark starts for its tasks does once, before its first work."""

import gc
from functools import cache


@cache
def settle_process() -> None:
    """Take what is loaded by now, modules above all, out of the garbage collector's sight; only the first call does.

    Spark collects after each task, and so does Python now and then while a task makes values: each time all the
    functions and classes of this package and of Spark would be looked at, which never go. That took 30 ms a task, as
    long as reading 250,000 messages.
    """
    gc.collect()
    gc.freeze()
