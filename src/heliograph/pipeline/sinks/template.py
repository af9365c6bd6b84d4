"""Text made of a row: templates with `${column}`, and the row as JSON."""

import re
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from heliograph.pipeline.errors import SinkError

_PLACEHOLDER: Final = re.compile(r"\$\{([^}]*)\}")


def template_column(template: str, columns: list[str], where: str) -> Column:
    """Return the text of a template for each row, as a Spark column: ``${name}`` becomes the text of that column.

    Raises:
        SinkError: The template names a column that the rows do not have.
    """
    parts: list[Column] = []
    done = 0
    for placeholder in _PLACEHOLDER.finditer(template):
        name = placeholder[1]
        if name not in columns:
            raise SinkError(f"{where} is {template!r}, but the rows have no column {name!r}: {', '.join(columns)}")
        parts.append(F.lit(template[done : placeholder.start()]))
        parts.append(F.coalesce(F.col(_quoted(name)).cast("string"), F.lit("null")))
        done = placeholder.end()
    return F.concat(*parts, F.lit(template[done:]))


def row_as_json(columns: list[str]) -> Column:
    """Return each row as a JSON object, as a Spark column; columns that are null are written as null."""
    return F.to_json(F.struct(*(F.col(_quoted(name)) for name in columns)), {"ignoreNullFields": "false"})


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
