"""What a schema is, and the registry in which rules, validations, transformations and Spark find it by name.

One module beside this one for each kind of schema. Values are those of the rule language (`heliograph.rules.values`).
"""

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from heliograph.rules.values import Value

#: Name of the built-in schema, and its kind.
SPARKPLUG_B: Final[str] = "sparkplug_b"


class SchemaError(Exception):
    """Data does not fit a schema, or there is no such schema; the message is a sentence without the schema's name."""


class Schema(Protocol):
    """One schema, ready to be used; every thread may use it.

    Attributes:
        name: Its name in the registry.
        kind: `avro`, `protobuf`, `json`, `external_http` or `sparkplug_b`.
        may_block: Whether its methods wait for somebody else, so that they may not be called in the event loop.
    """

    name: str
    kind: str
    may_block: bool

    def decode(self, data: bytes, message_type: str | None = None) -> Value:
        """The value that bytes stand for.

        Args:
            data: The bytes.
            message_type: Which message of a Protobuf schema; the others have none.

        Raises:
            SchemaError: They do not fit.
        """

    def encode(self, value: Value, message_type: str | None = None) -> bytes:
        """The bytes that stand for a value.

        Raises:
            SchemaError: It does not fit.
        """

    def check(self, data: Value, message_type: str | None = None) -> str | None:
        """Why a value, or bytes, do not fit the schema; None when they do."""


class SchemaRegistry:
    """The schemas of a process by name. Owned by the node; Spark's workers make their own from the same settings.

    Args:
        schemas: The schemas.
    """

    def __init__(self, schemas: Iterable[Schema] = ()) -> None:
        self._schemas: dict[str, Schema] = {schema.name: schema for schema in schemas}

    def get(self, name: str) -> Schema:
        """The schema of that name; `sparkplug_b` is built in.

        Raises:
            SchemaError: There is none.
        """
        schema = self._schemas.get(name)
        if schema is None and name == SPARKPLUG_B:
            # Imported, and compiled, when somebody asks for it: few do.
            from heliograph.rules.schemas.sparkplug import sparkplug_schema

            return sparkplug_schema()
        if schema is None:
            known = ", ".join(self._schemas) or "none"
            raise SchemaError(f"there is no schema {name!r}; there are: {known}")
        return schema

    def all(self) -> Mapping[str, Schema]:
        """Every schema by name."""
        return self._schemas

    def replace(self, schemas: Iterable[Schema]) -> None:
        """Have these schemas instead of those before."""
        self._schemas = {schema.name: schema for schema in schemas}

    def __repr__(self) -> str:
        return f"SchemaRegistry({', '.join(self._schemas)})"


#: The registry that the functions of the rule language use in this process.
INSTALLED: Final = SchemaRegistry()
