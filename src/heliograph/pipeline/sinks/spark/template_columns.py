"""Text made of a row as a column of Spark: templates with `${column}`, and the row as JSON.

Spark computes the text, so a template costs no Python per row and a value has one text, whichever sink writes it:
strings as they are, bytes as UTF-8, structures, arrays, maps and variants as JSON, others as Spark casts them.
"""

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StringType, StructType, VariantType

from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.sinks.rows import Derived
from heliograph.pipeline.sinks.template import BASE64_MARK, WHOLE_ROW, only_column, parts_of, template_fault

_NULL: Final = "null"
_BASE64: Final = "^[A-Za-z0-9+/]*={0,2}$"


def template_column(template: str, schema: StructType, where: str) -> Column:
    """The text of a template for each row, as a Spark column; what is null is written ``null``.

    ``${name}`` is a column, ``${a.b}`` a field of a structure, map or variant in a column, or of JSON in text or bytes,
    ``${.}`` the row as JSON.
    """
    if fault := template_fault(template):
        raise SinkError(f"{where}: {fault}")
    pieces: list[Column] = []
    for text, name in parts_of(template):
        if text:
            pieces.append(F.lit(text))
        if name is not None:
            pieces.append(F.coalesce(_text_at(name, schema, f"{where} is {template!r}"), F.lit(_NULL)))
    return F.concat(*pieces) if pieces else F.lit("")


def bytes_column(template: str, schema: StructType, where: str, *, keep_null: bool = False) -> Column:
    """The bytes of a template for each row: those of a column where it is nothing but its placeholder.

    A value in JSON may have its bytes in Base64, as `{"$base64": "..."}`.
    """
    if (name := only_column(template)) is not None:
        column, kind = column_at(name, schema, f"{where} is {template!r}")
        exact = column if isinstance(kind, BinaryType) else F.encode(text_of(column, kind), "utf-8")
        first, *path = name.split(".")
        if path and name not in schema.fieldNames() and isinstance(schema[first].dataType, StringType | BinaryType):
            exact = F.coalesce(_in_base64(column, text_of(F.col(quoted(first)), schema[first].dataType), path), exact)
        return exact if keep_null else F.coalesce(exact, F.lit(_NULL.encode()))
    return F.encode(template_column(template, schema, where), "utf-8")


def derived_column(derived: Derived, schema: StructType) -> Column:
    """A derived column of the rows.

    Raises:
        SinkError: The rows lack a column that the template names.
    """
    if derived.template is None:
        whole = row_as_json(schema.fieldNames())
        made = whole if derived.is_text else whole.cast("binary")
    elif derived.is_text:
        made = template_column(derived.template, schema, derived.where)
    else:
        made = bytes_column(derived.template, schema, derived.where, keep_null=derived.keep_null)
    return made.alias(derived.column)


def column_at(name: str, schema: StructType, where: str) -> tuple[Column, DataType]:
    if name in schema.fieldNames():
        return F.col(quoted(name)), schema[name].dataType
    first, *path = name.split(".")
    if not path or first not in schema.fieldNames():
        raise SinkError(f"{where}, but the rows have no column {name!r}: {', '.join(schema.fieldNames())}")
    column, kind = F.col(quoted(first)), schema[first].dataType
    for depth, key in enumerate(path):
        if isinstance(kind, StructType) and key in kind.fieldNames():
            column, kind = column.getField(key), kind[key].dataType
        elif isinstance(kind, MapType) and isinstance(kind.keyType, StringType):
            column, kind = F.try_element_at(column, F.lit(key)), kind.valueType
        elif isinstance(kind, VariantType):
            steps = "".join(f"[{_json_path_key(step)}]" for step in path[depth:])
            return F.try_variant_get(column, f"${steps}", "string"), StringType()
        elif isinstance(kind, StringType | BinaryType):
            return _in_json(text_of(column, kind), path[depth:]), StringType()
        else:
            above = ".".join([first, *path[:depth]])
            raise SinkError(f"{where}, but {above} is {kind.simpleString()} and has no field {key!r}")
    return column, kind


def _in_json(text: Column, path: list[str]) -> Column:
    """A value in text that is JSON; a step into text of that JSON looks into the JSON that it holds in turn."""
    steps = [f"[{_json_path_key(step)}]" for step in path]
    parsed = F.try_parse_json(text)
    found = F.try_variant_get(parsed, f"${''.join(steps)}", "string")
    if len(path) == 1:
        return found
    first = F.try_variant_get(parsed, f"${steps[0]}", "string")
    return F.coalesce(found, F.try_variant_get(F.try_parse_json(first), f"${''.join(steps[1:])}", "string"))


def _in_base64(found: Column, text: Column, path: list[str]) -> Column:
    """The bytes of a value of JSON that was found; null where it is no object with Base64 alone."""
    steps = "".join(f"[{_json_path_key(step)}]" for step in (*path, "$base64"))
    coded = F.try_variant_get(F.try_parse_json(text), f"${steps}", "string")
    is_alone = found == F.concat(F.lit(BASE64_MARK), coded, F.lit('"}'))
    is_exact = (F.length(coded) % 4 == 0) & coded.rlike(_BASE64)  # Spark takes more than Base64
    return F.when(is_alone & is_exact, F.try_to_binary(coded, F.lit("base64")))


def text_of(column: Column, kind: DataType) -> Column:
    """The text of a value, as a Spark column; null stays null."""
    if isinstance(kind, StringType):
        return column
    if isinstance(kind, BinaryType):
        return F.make_valid_utf8(column.cast("string"))
    if isinstance(kind, StructType | ArrayType | MapType | VariantType):
        return F.to_json(column, {"ignoreNullFields": "false"})
    return column.cast("string")


def row_as_json(columns: list[str]) -> Column:
    """Return each row as a JSON object, as a Spark column; columns that are null are written as null."""
    return F.to_json(F.struct(*(F.col(quoted(name)) for name in columns)), {"ignoreNullFields": "false"})


def quoted(name: str) -> str:
    """The name of a column as Spark takes it for a name, whatever is in it."""
    return f"`{name.replace('`', '``')}`"


def _text_at(name: str, schema: StructType, where: str) -> Column:
    if name == WHOLE_ROW:
        return row_as_json(schema.fieldNames())
    return text_of(*column_at(name, schema, where))


def _json_path_key(key: str) -> str:
    return key if key.isascii() and key.isdigit() else "'" + key.replace("'", "\\'") + "'"
