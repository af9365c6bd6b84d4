"""What an error of MariaDB or MySQL means for a batch: try again, refuse a row, or tell a person."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.sinks.retry import TransientError
from heliograph.pipeline.sinks.sql_batches import RefusedRowsError

# Null where there must be none, a double key, a foreign key, a value that does not fit, a CHECK, malformed JSON, a row
# that is too large for its page, and what a trigger of the user's says (1644).
_ROW_CODES: Final = frozenset(
    {1022, 1048, 1062, 1118, 1169, 1216, 1264, 1265, 1292, 1301, 1364, 1365, 1366, 1367, 1406, 1411, 1416, 1441, 1451}
    | {1452, 1526, 1557, 1586, 1644, 1690, 1713, 1748, 1761, 1762, 3140, 3141, 3156, 3819, 3903, 3988, 4025}
)
# Too many connections, shutdown, lock wait timeout, deadlock, read-only for now, and a lost connection's.
_TRANSIENT_CODES: Final = frozenset(
    {0, 1040, 1053, 1077, 1078, 1079, 1158, 1159, 1160, 1161, 1203, 1205, 1206, 1213, 1226, 1290, 1317, 1637, 1836}
    | {1927, 1969, 2002, 2003, 2006, 2013, 2014, 2055, 3024, 3572, 4031}
)
# Disk full, file full, write and out-of-memory errors of the server, and a node of Galera that is not in step.
_RESOURCE_CODES: Final = frozenset({3, 1021, 1026, 1037, 1038, 1041, 1047, 1114, 1180, 1792})
# The storage engine's own number stands in the text of this one.
_ENGINE_CODE: Final = 1030
_DISK_FULL: Final = "28"
# pymysql has no number for what it finds itself, such as a NaN, which SQL cannot say.
_TEXT_MAX: Final = 500


@contextmanager
def translated(target: str, *, rows: bool = True) -> Iterator[None]:
    """Translate what pymysql raises inside.

    Args:
        target: What is written, for messages.
        rows: Whether it can be the fault of a row; it is not where tables are created.

    Raises:
        TransientError: It may go well when tried again.
        RefusedRowsError: A row will never be taken.
        SinkError: Anything else.
    """
    import pymysql

    try:
        yield
    except pymysql.MySQLError as error:
        code = error.args[0] if error.args and isinstance(error.args[0], int) else None
        said = " ".join(str(part) for part in (error.args[1:] if code is not None else error.args))[:_TEXT_MAX]
        if rows and (code in _ROW_CODES or (code is None and isinstance(error, pymysql.ProgrammingError))):
            raise RefusedRowsError(said) from error
        is_full = code == _ENGINE_CODE and _DISK_FULL in said
        if code in _TRANSIENT_CODES or code in _RESOURCE_CODES or is_full:
            raise TransientError(f"{target}: {said or 'the connection was lost'}") from error
        raise SinkError(f"{target}: {said}") from error
    except OSError as error:
        raise TransientError(f"{target}: {error}") from error
