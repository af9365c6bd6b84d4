"""How the rows of an Iceberg table are parted: `station`, `day(observed_at)`, `bucket(16, station)`."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from heliograph.hocon.values import Content
from heliograph.settings.kinds import Kind, RefusedError

if TYPE_CHECKING:
    from pyiceberg.table import Transaction
    from pyiceberg.transforms import Transform

_CALL: Final = re.compile(r"(\w+)\((?:\s*(\d+)\s*,)?\s*([^(),]+?)\s*\)")
_PLAIN: Final = ("identity", "year", "month", "day", "hour")
_COUNTED: Final = ("bucket", "truncate")


@dataclass(frozen=True)
class Partition:
    """One field of a partition.

    Attributes:
        column: The column that it is made of.
        transform: How.
        count: Buckets, or the width to truncate to.
    """

    column: str
    transform: str = "identity"
    count: int | None = None

    @property
    def name(self) -> str:
        """What the field is called in the table, in the way of other writers."""
        return self.column if self.transform == "identity" else f"{self.column}_{self.transform}"


class PartitionKind(Kind[Partition]):
    """One element of `partition_by`."""

    expected = (
        f"a column such as station, or one of {', '.join(f'{name}(column)' for name in _PLAIN[1:])}, "
        "bucket(16, column), truncate(4, column)"
    )

    def convert(self, value: Content) -> Partition:
        """The field of the partition."""
        if not isinstance(value, str) or not value:
            raise RefusedError
        if "(" not in value:
            return Partition(value)
        call = _CALL.fullmatch(value.strip())
        count = int(call[2]) if call is not None and call[2] is not None else None
        if call is None or call[1] not in (_PLAIN if count is None else _COUNTED) or count == 0:
            raise RefusedError
        return Partition(call[3], call[1], count)


def add_partitions(transaction: "Transaction", partitions: Sequence[Partition]) -> None:
    """Set the partitions of a new table."""
    if not partitions:
        return
    with transaction.update_spec() as update:
        for partition in partitions:
            update.add_field(partition.column, _transform(partition), partition.name)


def _transform(partition: Partition) -> "Transform[object, object]":
    from pyiceberg.transforms import parse_transform

    text = partition.transform if partition.count is None else f"{partition.transform}[{partition.count}]"
    transform: Transform[object, object] = parse_transform(text)
    return transform
