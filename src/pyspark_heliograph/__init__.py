"""Makes ``format("heliograph")`` known to Spark without registering it: Spark looks for packages that begin so.

Spark imports this package in a Python process of its own, once for each session, and takes `DefaultSource`. A program
that imports it before its session begins has Spark's local workers run with its own Python, whatever is on the path.
"""

from heliograph.pipeline.datasource.source import HeliographDataSource as DefaultSource
from heliograph.pipeline.datasource.worker_python import name_own_python

name_own_python()

__all__ = ["DefaultSource"]
