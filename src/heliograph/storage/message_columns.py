"""The columns of a stored message, declared once: what readers, files, rules, Spark and the documentation make of them.

Types are Spark's words; `binary(16)` has a fixed length, which Spark does not know. Arrow's types are made in
`columnar.arrow_rows`, Spark's in `pipeline.datasource.schema`.
"""

from typing import Final, NamedTuple


class MessageColumn(NamedTuple):
    """One column.

    Attributes:
        meaning: What it says, for `docs/storage.md`; empty where the name says it.
        is_nullable: Whether a message may lack it.
    """

    name: str
    type: str
    meaning: str = ""
    is_nullable: bool = False

    @property
    def ddl(self) -> str:
        return f"{self.name} {self.type.partition('(')[0]}"


_PROPERTIES: Final = (
    "MQTT 5 names; `Correlation-Data` in base64; user properties as `User-Property.<name>`, the last of a name wins"
)
_STORED_AT: Final = (
    "its commit; strictly increasing from commit to commit, also when the clock is set back: see "
    "[the clock](#the-clock)"
)

#: What a message is; the order is that of the arguments of `rules.columns.MessageColumns`.
MESSAGE: Final = (
    MessageColumn("topic", "string"),
    MessageColumn("payload", "binary"),
    MessageColumn("qos", "tinyint", "as published"),
    MessageColumn("retain", "boolean", "as published"),
    MessageColumn("clientid", "string"),
    MessageColumn("username", "string", is_nullable=True),
    MessageColumn("properties", "map<string, string>", _PROPERTIES, is_nullable=True),
    MessageColumn(
        "guid", "binary(16)", "the message id: time (64 bits), node and channel (48), sequence (16), big-endian"
    ),
    MessageColumn("received_at", "timestamp", "when the broker received it"),
)
#: When and where it was stored.
PLACE: Final = (
    MessageColumn("stored_at", "timestamp", _STORED_AT),
    MessageColumn("shard", "int"),
    MessageColumn("stream", "string"),
    MessageColumn("position", "string", "its place in the stream, as `from` and `to` take it"),
)
COLUMNS: Final = MESSAGE + PLACE
