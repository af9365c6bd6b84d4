"""Delayed messages: what is asked of them, and answers."""

from typing import Annotated

import msgspec

from heliograph.control.columns import Fact, Time, columns_of
from heliograph.rpc.asks import ACTS, LISTED, OWNER, SUMMED, Ask, ListAsk
from heliograph.rpc.methods import Args, NoArgs


class DelayedInfo(msgspec.Struct, frozen=True):
    """How much is held, by the names that metrics have, and where: `ram` or `disc`."""

    storage: str
    counts: dict[str, float]


class DelayedNumber(Args, frozen=True):
    """One delayed message, by its number."""

    id: int


class DelayedRow(msgspec.Struct, frozen=True):
    """A message that is published later; times are microseconds since the epoch.

    Attributes:
        id: Its number.
        topic: To which it is published.
        bytes: Of its payload.
        expected_at: When it is published if the clock is not set until then.
    """

    id: Annotated[int, Fact("msgid", answered="{:032X}".format, answers=str)]
    topic: str
    qos: int
    bytes: Annotated[int, Fact("payload_bytes")]
    clientid: Annotated[str, Fact("from_clientid")]
    username: Annotated[str | None, Fact("from_username", unknown="")]
    received_at: Annotated[int, Fact("publish_at", time_us=1)]
    expected_at: Time


class DelayedPage(Args, frozen=True):
    """Which delayed messages to list.

    Attributes:
        after: Those with higher numbers.
        skip: Pass over so many.
        limit: The most that are listed; 0 for all.
        topic: To this topic only.
    """

    after: int = 0
    skip: int = 0
    limit: int = 0
    topic: str = ""


class DelayedMessageRow(msgspec.Struct, frozen=True):
    """The same with its payload, 256 KiB at most."""

    row: DelayedRow
    payload: bytes


DELAYED_INFO = Ask("delayed.info", NoArgs, DelayedInfo, SUMMED)
DELAYED_LIST = ListAsk("delayed.list", DelayedPage, DelayedRow, LISTED)
DELAYED_SHOW = Ask("delayed.show", DelayedNumber, DelayedMessageRow, OWNER)
DELAYED_DELETE = Ask("delayed.delete", DelayedNumber, DelayedRow, OWNER, ACTS)

DELAYED = columns_of(
    DelayedRow,
    table=[name for name in DelayedRow.__struct_fields__ if name != "username"],
)
