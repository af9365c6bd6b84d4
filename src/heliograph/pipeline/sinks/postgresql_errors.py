"""What an error of PostgreSQL means for a batch: try again, refuse a row, or tell a person."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.sinks.retry import TransientError
from heliograph.pipeline.sinks.sql_batches import RefusedRowsError

# Classes of SQLSTATE: data exception, integrity constraint violation, a check of a view or a partition.
_ROW_CLASSES: Final = ("22", "23", "44")
# Limits of the server: of an index entry or a row, and of the stack, by JSON of many levels. Others of their class, too
# many columns or arguments, are of the statement.
_ROW_LIMITS: Final = ("54000", "54001")
# What a function of the user's, such as a trigger that looks at rows, raises without another state.
_RAISED: Final = "P0001"
# Connection, transaction rolled back (deadlock, serialization), resources, operator intervention, system error; and an
# object in use, as by a lock that was waited for too long.
_TRANSIENT_CLASSES: Final = ("08", "40", "53", "57", "58", "55")
# A server that became a replica, or was set to be read only.
_READ_ONLY: Final = "25006"
# Of the classes: a database that was dropped or takes no connections by configuration is nothing that passes.
_LASTING_STATES: Final = ("57P04", "55000")

_CONSTRAINTS: Final = "23"

_TEXT_MAX: Final = 500


@contextmanager
def translated(target: str, *, rows: bool = True) -> Iterator[None]:
    """Translate what psycopg raises inside.

    Args:
        target: What is written, for messages.
        rows: Whether it can be the fault of a row. Where tables are created it is not: two that create one at the
            same time meet at a constraint of the catalogue.

    Raises:
        TransientError: It may go well when tried again.
        RefusedRowsError: A row will never be taken.
        SinkError: Anything else.
    """
    import psycopg

    try:
        yield
    except psycopg.Error as error:
        state = error.sqlstate or ""
        text = f"{target}: {_sentence(error)}"
        is_row = state[:2] in _ROW_CLASSES or state in (*_ROW_LIMITS, _RAISED)
        is_row = is_row or (not state and isinstance(error, psycopg.DataError))
        if is_row and rows:
            raise RefusedRowsError(_sentence(error)) from error
        is_passing = state[:2] in _TRANSIENT_CLASSES and state not in _LASTING_STATES
        is_passing = is_passing or state == _READ_ONLY or (not rows and state[:2] == _CONSTRAINTS)
        if is_passing or (not state and isinstance(error, psycopg.OperationalError) and not _is_login(error)):
            raise TransientError(text) from error
        raise SinkError(text) from error


def _sentence(error: BaseException) -> str:
    diagnosis = getattr(error, "diag", None)
    primary = getattr(diagnosis, "message_primary", None)
    if primary is None:
        return " ".join(str(error).split())[:_TEXT_MAX]
    detail = getattr(diagnosis, "message_detail", None)
    return (f"{primary} ({detail})" if detail else str(primary))[:_TEXT_MAX]


def _is_login(error: BaseException) -> bool:
    # While connecting, libpq gives a text and no SQLSTATE.
    return any(said in str(error) for said in ("authentication failed", "does not exist", "pg_hba.conf", "certificate"))
