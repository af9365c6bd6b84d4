"""What a kind of sink is: a frozen value that is read from a pipeline file and brings batches to their target.

One module beside this one for each kind, named in `heliograph.pipeline.sinks.KINDS`. A sink is made once from the file,
pickles, and holds settings only; what `write` opens it closes again. Its library is imported in `write` and `check`, so
that a file can be read where the library is not installed.

There are two forms. A `RowSink` takes rows as Arrow, whichever engine computed them. A `TableSink` takes a
DataFrame, since Spark's tasks write the files of its table.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, TypeVar, runtime_checkable

from heliograph.hocon.values import Content
from heliograph.pipeline.sinks.rows import Derived, RowField, Rows
from heliograph.settings.fields import ListOf
from heliograph.settings.kinds import Kind, RefusedError, Text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_Connection = TypeVar("_Connection")

#: What to say to a person who lacks the library of a sink.
INSTALL: Final = "pip install 'heliograph[pipeline,sinks]'"
INSTALL_WITHOUT_SPARK: Final = "pip install 'heliograph[actions,sinks]'"


class OutputMode(StrEnum):
    """Which rows of a result a micro-batch brings; the words and meanings are Spark's."""

    APPEND = "append"
    UPDATE = "update"
    COMPLETE = "complete"


class Guarantee(StrEnum):
    """How often a row arrives that a batch brings again after a failure."""

    EXACTLY_ONCE = "exactly once"
    AT_LEAST_ONCE = "at least once"


class TargetConnections(Protocol):
    """How a sink gets a connection to its target."""

    def opened(
        self, opens: Callable[[], AbstractContextManager[_Connection]], *, stays: bool = False
    ) -> AbstractContextManager[_Connection]:
        """A connection for a `with` block; an exception in the block ends it.

        Args:
            stays: Whether it holds itself open, however long nothing is sent.
        """


class NewConnections:
    """Each connection is a new one, and is closed behind its use."""

    def opened(
        self, opens: Callable[[], AbstractContextManager[_Connection]], *, stays: bool = False
    ) -> AbstractContextManager[_Connection]:
        """A new connection, for a `with` block."""
        return opens()


@dataclass(frozen=True)
class MicroBatch:
    """One micro-batch on its way to a sink.

    Attributes:
        query: Name of the query, for messages and client ids.
        owner: Identity of the query's checkpoint. With `number` it names the batch: a batch that runs again, in this
            driver or the next, has the same two and the same rows.
        number: Number of the batch; numbers rise by one from 0.
        refuse: Called on the driver with a row that the target will never take and the reason. The row goes to the dead
            letters, and the batch goes on without it. What may go well when tried again is no reason to refuse.
        backfill_of: The owner of the live query into whose target a backfill or a replay writes, with an owner and
            numbers of its own; None for the live query. A target that belongs to one owner takes its backfills too.
        connections: Gives the sink its connection, which the caller may keep from batch to batch.
        tell_retry: Called by any thread of the sink with a failure after which it tries again, and with None when that
            went well, for the status.
    """

    query: str
    owner: str
    number: int
    output: Path
    mqtt: str
    refuse: Callable[[Mapping[str, Any], str], None]
    backfill_of: str | None = None
    tell_retry: Callable[[str | None], None] = lambda error: None
    connections: TargetConnections = NewConnections()


@dataclass(frozen=True)
class Written:
    """What a sink says of a batch that has arrived.

    Attributes:
        rows_total: Rows that the target holds of all batches, where it knows.
        figures: Counters of this batch for the status, such as `retries` or `bytes`, by name.
    """

    rows_total: int | None = None
    figures: Mapping[str, int] = field(default_factory=dict)


#: A setting that names columns of the rows.
COLUMNS: Final = ListOf(Text("the name of a column"), at_least=1)


class ColumnNames(Kind[tuple[str, ...]]):
    """One column of the rows, or several."""

    expected = "the name of a column, or a list of them"

    def convert(self, value: Content) -> tuple[str, ...]:
        """A tuple of names, of which each is there once."""
        names = [item.value for item in value] if isinstance(value, list) else [value]
        if not names or not all(isinstance(name, str) and name for name in names):
            raise RefusedError
        return tuple(dict.fromkeys(str(name) for name in names))


#: What a sink says of its setting `newest_by`.
NEWEST_BY: Final = (
    "With `key`: columns by which a row is newer, the first first; an older row never replaces a newer one."
)


def check_key(mode: OutputMode, key: tuple[str, ...]) -> None:
    """Refuse a mode that needs a key without one: nothing says which row is which."""
    if mode is OutputMode.UPDATE and not key:
        raise RefusedError("has no key: mode update needs the columns that identify a row")


def check_newest_by(newest_by: tuple[str, ...], key: tuple[str, ...]) -> None:
    """Refuse columns that say which row is newer where nothing says that two rows are the same one."""
    if newest_by and not key:
        raise RefusedError("needs key, the columns that identify a row", "newest_by")
    for name in newest_by:
        if name in key:
            raise RefusedError(f"names {name!r}, which is in key: rows that differ there are other rows", "newest_by")


class Sink(ABC):
    """What sinks of both forms have. Every implementation is a frozen dataclass, whose fields are its settings.

    A field `mode` that is no setting is given which rows the batches bring.
    """

    guarantee: ClassVar[Guarantee]
    modes: ClassVar[tuple[OutputMode, ...]] = tuple(OutputMode)

    @property
    def owned(self) -> tuple[str, ...]:
        """What no other query may write to, in words: `table obs`; empty where several may."""
        return ()

    @property
    @abstractmethod
    def target(self) -> str:
        """Where rows go, for people: `PostgreSQL table obs at db:5432/weather`; no secrets."""

    def check_fields(self, fields: Sequence[RowField]) -> None:  # noqa: B027 (most sinks name none)
        """Look at the columns of the rows before the first batch; the caller looks at what templates take of them.

        Raises:
            SinkError: The sink names a column that they do not have.
        """


class RowSink(Sink):
    """A sink of rows as Arrow, with the columns that it names."""

    @property
    def derived(self) -> Sequence[Derived]:
        """Texts and bytes that it makes of each row."""
        return ()

    @property
    def paths(self) -> Sequence[str]:
        """Columns, and paths such as ``a.b``, whose values it takes beside the columns of the rows."""
        return ()

    @property
    def takes_bytes_as_hex(self) -> bool:
        """Whether bytes are texts ``\\x0aff`` in the columns of the rows, as PostgreSQL writes them."""
        return False

    @abstractmethod
    def write(self, rows: Rows, batch: MicroBatch) -> Written:
        """Bring a batch to the target. Called once after another for one query; it may block.

        Raises:
            SinkError: The target did not take it; the caller runs the batch again after a pause.
        """


class TableSink(Sink):
    """A sink of a DataFrame."""

    def check_place(self) -> None:
        """See without a row whether the place of the table can be reached.

        Raises:
            SinkError: It cannot.
            TransientError: It cannot now.
        """

    @abstractmethod
    def write(self, rows: "DataFrame", batch: MicroBatch) -> Written:
        """Bring a batch to the target. Called on the driver, once after another for one query; it may block.

        Raises:
            SinkError: The target did not take it; the driver runs the batch again after a pause.
        """


@runtime_checkable
class AltersTable(Protocol):
    """A sink that can tell before the first batch what a batch would change in the definition of its table."""

    def changes(self, fields: Sequence[RowField], output: Path) -> Sequence[str]:
        """What a batch of such rows would change, in words as `adds the column temp (double precision)`.

        It asks the target, and changes nothing there.

        Args:
            output: The output directory, which need not exist.

        Raises:
            SinkError: The table cannot take such rows, or cannot be asked.
            TransientError: It cannot be asked now.
        """
