"""Makes ``format("heliograph")`` known to Spark without registering it: Spark looks for packages that begin so.

Spark imports this package in a Python process of its own, once for each session, and takes `DefaultSource`.
"""

from heliograph.pipeline.datasource.source import HeliographDataSource as DefaultSource

__all__ = ["DefaultSource"]
