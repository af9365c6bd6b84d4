"""What clients of the storage reader ask for: JSON fields, checked, each fault said in words."""

import json
from typing import Any, Final

from heliograph.storage.columnar.arrow_rows import PUBLIC_SCHEMA
from heliograph.storage.columnar.damage import FAIL, ON_DAMAGE
from heliograph.storage.columnar.generations import shard_of
from heliograph.storage.interface import Position, StreamId
from heliograph.storage.topic_filter import TopicFilter, topic_filter

INVALID_REQUEST: Final = "storage_invalid_request"  # the code of requests that are not of the form


REQUEST_BYTES_MAX: Final = 4 << 20  # positions of 50,000 streams
FILTERS_MAX: Final = 1000


class Request:
    """The fields of one action or ticket; `ValueError` if it is not a JSON object."""

    def __init__(self, data: bytes) -> None:
        if len(data) > REQUEST_BYTES_MAX:
            raise ValueError(f"the request has {len(data)} bytes; {REQUEST_BYTES_MAX} are allowed")
        try:
            fields = json.loads(data or b"{}")
        except ValueError as error:
            raise ValueError(f"the request is not JSON in UTF-8: {error}") from error
        if not isinstance(fields, dict):
            raise ValueError(f"the request is {type(fields).__name__}; a JSON object is expected")
        self._fields: dict[str, Any] = fields

    @property
    def database(self) -> str:
        return self.text("database")

    def has(self, name: str) -> bool:
        return self._fields.get(name) is not None

    def has_database(self) -> bool:
        return self.has("database")

    def text(self, name: str, default: str | None = None) -> str:
        """A text field; without a default it must be there."""
        value = self._fields.get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, str):
            raise ValueError(f"the field {name!r} is {value!r}; a text is expected")
        return value

    def count(self, name: str) -> int | None:
        """A number field, or None if it is absent."""
        value = self._fields.get(name)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise ValueError(f"the field {name!r} is {value!r}; a whole number from 0 up, or null, is expected")
        return value

    def times(self) -> tuple[int | None, int | None]:
        return self.count("start"), self.count("end")

    def filters(self) -> list[TopicFilter]:
        topics = self._fields.get("topics")
        if isinstance(topics, list) and len(topics) > FILTERS_MAX:
            raise ValueError(f"the field 'topics' has {len(topics)} topic filters; {FILTERS_MAX} are allowed")
        if not isinstance(topics, list) or not topics or not all(isinstance(topic, str) for topic in topics):
            raise ValueError(f"the field 'topics' is {topics!r}; a list of topic filters is expected")
        return [topic_filter(topic, self.database) for topic in topics]

    def shards(self, n_shards: int) -> frozenset[int] | None:
        """The shards that the fields `shards` and `clientids` leave; None is all."""
        given = self._fields.get("shards")
        if given is not None and not (isinstance(given, list) and all(type(shard) is int for shard in given)):
            raise ValueError(f"the field 'shards' is {given!r}; a list of numbers, or null, is expected")
        shards = None if given is None else frozenset(given)
        clientids = self.clientids()
        if clientids is None:
            return shards
        of_clients = frozenset(shard_of(clientid, n_shards) for clientid in clientids)
        return of_clients if shards is None else shards & of_clients

    def clientids(self) -> list[str] | None:
        """The field `clientids`: the clients whose messages are wanted; None is all."""
        clientids = self._fields.get("clientids")
        if clientids is not None and not (
            isinstance(clientids, list) and all(isinstance(clientid, str) for clientid in clientids)
        ):
            raise ValueError(f"the field 'clientids' is {clientids!r}; a list of texts, or null, is expected")
        return clientids

    def ranges(self) -> dict[StreamId, tuple[Position, Position]]:
        """The field `ranges`: of each stream, the position before the first row and that of the last."""
        ranges = self._fields.get("ranges")
        if not isinstance(ranges, dict):
            raise ValueError(f"the field 'ranges' is {ranges!r}; an object of streams is expected")
        parsed = {}
        for text, ends in ranges.items():
            if not (isinstance(ends, list) and len(ends) == 2 and all(isinstance(end, str) for end in ends)):
                raise ValueError(f"the range of {text!r} is {ends!r}; two positions are expected")
            stream = StreamId.parse(text)
            parsed[stream] = Position.parse(ends[0], stream), Position.parse(ends[1], stream)
        return parsed

    def on_damage(self) -> str:
        on_damage = self.text("on_damage", FAIL)
        if on_damage not in ON_DAMAGE:
            raise ValueError(f"the field 'on_damage' is {on_damage!r}; valid are {', '.join(ON_DAMAGE)}")
        return on_damage

    def columns(self) -> list[str] | None:
        columns = self._fields.get("columns")
        if columns is None:
            return None
        if not isinstance(columns, list):
            raise ValueError(f"the field 'columns' is {columns!r}; a list of column names, or null, is expected")
        unknown = [column for column in columns if column not in PUBLIC_SCHEMA.names]
        if unknown:
            raise ValueError(f"there is no column {unknown[0]!r}; there are: {', '.join(PUBLIC_SCHEMA.names)}")
        return columns

    def positions(self) -> dict[StreamId, Position]:
        positions = self._fields.get("positions") or {}
        if not isinstance(positions, dict):
            raise ValueError(f"the field 'positions' is {positions!r}; an object of streams is expected")
        parsed = {}
        for text, position in positions.items():
            stream = StreamId.parse(text)
            parsed[stream] = Position.parse(str(position), stream)
        return parsed
