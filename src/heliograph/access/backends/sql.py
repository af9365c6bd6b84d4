"""What SQL databases have in common: a statement with parameters gives rows."""

from collections.abc import Collection, Mapping
from typing import Final, TypeAlias

from heliograph.access.backends.interface import Client, Connector, PoolLimits
from heliograph.access.backends.live import Backends
from heliograph.access.backends.store import AccessStore
from heliograph.access.templates import TemplateError, Values
from heliograph.access.templates.sql import FORMAT, Statement
from heliograph.access.templates.template import warn_of_unknown
from heliograph.config.backends.sql import SqlConnection

Row: TypeAlias = Mapping[str, object]

# A query that lacks its condition would bring the rules of all clients into memory for each of them.
_ROWS_MAX: Final = 10_000


class TooManyRowsError(Exception):
    """A query gives more rows than can be about one client."""


class SqlStore(AccessStore[Client, tuple[str, ...]]):
    """A database that is asked one query; making it raises `TemplateError` if that cannot be used."""

    def __init__(
        self,
        name: str,
        settings: SqlConnection,
        names: Collection[str],
        connector: Connector[Client],
        backends: Backends,
    ) -> None:
        limits = PoolLimits(questions=settings.pool_size, deadline_s=settings.query_timeout)
        super().__init__(name, connector, limits, backends)
        self._statement: Final = _checked_statement(name, settings, names)
        self.names = self._statement.names

    def question(self, values: Values) -> tuple[str, ...]:
        return tuple(self._statement.params(values))


def _checked_statement(name: str, settings: SqlConnection, names: Collection[str]) -> Statement:
    """Raises `TemplateError` if a placeholder stands in quotes or a comment, where it would be no parameter."""
    Statement(settings.query, names, FORMAT)
    statement = Statement(settings.query, names, settings.dialect)
    warn_of_unknown(f"the query of {name}", statement.unknown)
    return statement


def query_fault(settings: SqlConnection, names: Collection[str]) -> str:
    """What is wrong with the query, for people; empty for nothing."""
    try:
        Statement(settings.query, names, FORMAT)
    except TemplateError as error:
        return str(error)
    return ""


def check_count(count: int) -> None:
    if count > _ROWS_MAX:
        raise TooManyRowsError(f"it gives {count:,} rows, and more than {_ROWS_MAX:,} cannot be about one client")
