"""What the sinks of table formats (Delta Lake, Iceberg) have in common: settings, and what becomes of a batch."""

from dataclasses import dataclass
from typing import ClassVar

from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.sinks.interface import COLUMNS, Guarantee, OutputMode, Sink, check_key
from heliograph.settings.fields import list_setting, setting
from heliograph.settings.kinds import Boolean


@dataclass(frozen=True, kw_only=True)
class LakeSink(Sink):
    """A sink whose rows go to a table with a log of its own, each batch in one commit that says which it was.

    Attributes:
        mode: Which rows the batches bring: append adds them, update merges them by key, complete replaces all.
    """

    guarantee: ClassVar[Guarantee] = Guarantee.EXACTLY_ONCE

    mode: OutputMode = OutputMode.APPEND
    key: tuple[str, ...] = list_setting(
        COLUMNS, (), "Columns that identify a row (mode update); of several rows of a batch the last counts."
    )
    merge_schema: bool = setting(Boolean(), False, "Whether columns that the table does not have yet are added to it.")
    shared: bool = setting(Boolean(), False, "Whether others write to the table too.")

    def __post_init__(self) -> None:
        check_key(self.mode, self.key)

    @property
    def owned(self) -> tuple[str, ...]:
        """The table, unless it is shared."""
        return () if self.shared else (f"the {self.target}",)

    def check_owner(self, found: str, owner: str) -> None:
        """Refuse a table that this checkpoint did not make, unless it is shared.

        Raises:
            SinkError: It is one.
        """
        if found != owner and not self.shared:
            raise SinkError(
                f"the {self.target} was made by {found}, not by this checkpoint ({owner}), so this could repeat rows: "
                "write to another table, use the checkpoint that made it, or set shared = true to add to what is there"
            )
