"""What is wrong with the sources of authorization of a configuration that only a language knows."""

from collections.abc import Iterator

from heliograph.access.backends.sql import query_fault
from heliograph.access.templates.values import QUERY_NAMES
from heliograph.config.backends.sql import SqlConnection
from heliograph.config.settings import Config


def query_faults(config: Config) -> Iterator[tuple[tuple[str, ...], str]]:
    """The path of each query that cannot be used, and what is wrong with it."""
    for number, settings in enumerate(config.authorization.sources, 1):
        if isinstance(settings, SqlConnection) and (problem := query_fault(settings, QUERY_NAMES)):
            yield ("authorization", "sources", str(number), "query"), problem
