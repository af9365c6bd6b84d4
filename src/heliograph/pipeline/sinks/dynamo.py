"""The sink `dynamo`: rows as items of a table of Amazon DynamoDB.

An item replaces the one of the same key, so a row that comes again changes nothing, and of several rows with one key
the last counts.
"""

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any, ClassVar, Final

from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.sinks.aws import AwsLink, AwsSink
from heliograph.pipeline.sinks.interface import INSTALL
from heliograph.pipeline.sinks.messages import OnTheirWay, OutgoingMessage
from heliograph.pipeline.sinks.retry import TransientError
from heliograph.pipeline.sinks.rows import Derived
from heliograph.settings.aws import PROBED_NAME
from heliograph.settings.fields import optional, required
from heliograph.settings.kinds import Text

_TEMPLATE: Final = "template"
_ITEMS_MAX: Final = 25
_ITEM_BYTES_MAX: Final = 400 * 1024
_TEXT_MAX: Final = 100
_EXACT: Final = Context(prec=40)  # numbers have up to 38 digits
_LEVELS_MAX: Final = 32

#: An item as the service has it: each value in an object that names its type.
Item = dict[str, dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class DynamoSink(AwsSink):
    service: ClassVar[str] = "dynamodb"

    table: str = required(Text("the name of a table", r"[a-zA-Z0-9_.-]{3,255}"), "The table, which must be there.")
    hash_key: str = required(Text("the name of an attribute"), "The attribute that is the partition key of the table.")
    range_key: str | None = optional(
        Text("the name of an attribute"), "The attribute that is its sort key, where it has one."
    )
    template: str | None = optional(
        Text("a template"), "Template of the item, a JSON object whose members are attributes; without, the row."
    )

    @property
    def target(self) -> str:
        return f"DynamoDB table {self.table} at {self.endpoint}"

    @property
    def keys(self) -> tuple[str, ...]:
        return (self.hash_key,) if self.range_key is None else (self.hash_key, self.range_key)

    @property
    def derived(self) -> Sequence[Derived]:
        return (Derived(_TEMPLATE, self.template, _TEMPLATE),)

    def message_of(self, chunk: dict[str, list[Any]], index: int) -> tuple[str, bytes, dict[str, str]]:
        item = _item_of(chunk[_TEMPLATE][index])
        if (size := sum(len(name.encode()) + _size(value) for name, value in item.items())) > _ITEM_BYTES_MAX:
            raise ValueError(f"the item has {size:,} bytes, and DynamoDB takes {_ITEM_BYTES_MAX:,}")
        return self.key_of(item), json.dumps(item).encode(), {}

    def key_fault(self, item: Item) -> str | None:
        """Why an item has no key that a table could have."""
        for name in self.keys:
            if not item.get(name, {}).keys() & {"S", "N"}:
                return f"the item has no text or number as its key {name}"
        return None

    def key_of(self, item: Item) -> str:
        """The key of an item, as text; equal numbers are the same."""
        return json.dumps([_key_value(item.get(name, {})) for name in self.keys])

    def connected(self) -> AbstractContextManager[AwsLink]:
        return DynamoLink(self)


class DynamoLink(AwsLink):
    entries_max = _ITEMS_MAX
    bytes_max = 4 << 20  # of 16 MB, which an answer has too where the table takes none of it

    def __init__(self, sink: DynamoSink) -> None:
        super().__init__(sink)
        self._of = sink

    def size_of(self, message: OutgoingMessage) -> int:
        return len(message.body)

    def check(self) -> None:
        """Also whether the keys are those of the table: otherwise each row would be refused for itself."""
        missing = ("ResourceNotFoundException",) if self._of.table == PROBED_NAME else ()
        found = self.look("describe_table", missing, TableName=self._of.table)
        schema = found.get("Table", {}).get("KeySchema")
        if not schema:
            return
        has = {one.get("KeyType"): one.get("AttributeName") for one in schema}
        wanted = {"HASH": self._of.hash_key} | ({"RANGE": self._of.range_key} if self._of.range_key else {})
        if has != wanted:
            text = ", ".join(f"{name} ({kind})" for kind, name in has.items())
            raise SinkError(f"{self._of.target}: the keys of the table are {text}: set hash_key and range_key to them")

    def put(self, numbers: Sequence[int], outgoing: OnTheirWay) -> None:
        table = self._of.table
        # A request may have each key once. Keys are looked at here, where those of the settings are known to be right.
        last: dict[str, Item] = {}
        for number in numbers:
            item: Item = json.loads(outgoing.waiting[number].body)
            if (fault := self._of.key_fault(item)) is not None:
                outgoing.refuse(number, fault)
            else:
                last[outgoing.waiting[number].place] = item
        if not last:
            return
        requests = [{"PutRequest": {"Item": item}} for item in last.values()]
        answer = self.call("batch_write_item", RequestItems={table: requests})
        unprocessed = answer.get("UnprocessedItems")
        if unprocessed is None:  # what botocore cannot read is an answer without members
            raise TransientError(f"{self._of.target}: this is not an answer of the service")
        left = {
            self._of.key_of(request.get("PutRequest", {}).get("Item", {}))
            for requests in unprocessed.values()
            for request in requests
        }
        if not left <= last.keys():
            raise TransientError(f"{self._of.target}: the answer has items that were not sent")
        for number in numbers:
            message = outgoing.waiting.get(number)
            if message is not None and message.place not in left:
                outgoing.take(number)
        if left:
            outgoing.problem = "the table has no throughput left"


def _item_of(text: bytes) -> Item:
    """The item of a JSON object. Raises `ValueError`."""
    try:
        from boto3.dynamodb.types import TypeSerializer
    except ImportError as error:
        raise SinkError(f"the sink dynamo needs boto3: {INSTALL}") from error
    try:
        found = json.loads(text, parse_float=Decimal, parse_constant=_no_number)
        if not isinstance(found, dict):
            raise ValueError("the item is no JSON object")
        serialize = TypeSerializer().serialize
        item = {name: serialize(value) for name, value in found.items()}
    except json.JSONDecodeError as error:
        raise ValueError(f"the item is no JSON: {error}") from None
    except UnicodeDecodeError:
        raise ValueError("the item is not UTF-8") from None
    except RecursionError:
        raise ValueError("the item has too many levels") from None
    except (ArithmeticError, TypeError) as error:
        raise ValueError(f"the item has a number that DynamoDB does not take: {type(error).__name__}") from None
    return item


def _no_number(text: str) -> object:
    raise ValueError(f"the item has {text}, which is no number")


def _size(value: dict[str, Any], level: int = 0) -> int:
    """The bytes of a value as DynamoDB counts them, or fewer. Raises `ValueError` for what has too many levels."""
    if level > _LEVELS_MAX:
        raise ValueError(f"the item has more than {_LEVELS_MAX} levels")
    ((kind, held),) = value.items()
    if kind == "S":
        return len(held.encode())
    if kind == "N":
        return 1 + len(held.lstrip("-0.")) // 2
    if kind == "L":
        return 3 + sum(1 + _size(one, level + 1) for one in held)
    if kind == "M":
        return 3 + sum(1 + len(name.encode()) + _size(one, level + 1) for name, one in held.items())
    return 1


def _key_value(value: dict[str, Any]) -> object:
    if "N" in value:
        return str(Decimal(value["N"]).normalize(_EXACT))
    return value
