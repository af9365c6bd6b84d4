"""Messages as they come: what is asked of a node, and answers."""

from typing import Annotated

import msgspec

from heliograph.control.columns import Fact, Time
from heliograph.rpc.asks import ONE, ListAsk
from heliograph.rpc.methods import Args


class TailWanted(Args, frozen=True):
    """Which messages are looked at.

    Attributes:
        filter: A topic filter.
        rate: How many a second at the most.
        payload_max: Bytes of each payload.
    """

    filter: str
    rate: int = 10
    payload_max: int = 1024


class TailRow(msgspec.Struct, frozen=True):
    """A message that was published, or only how many were left out where there is none to tell.

    Attributes:
        left_out: Messages of the filter since the row before that were left out.
        msgid: In hexadecimal digits; empty where the row is about no message.
        received_at: Microseconds since the epoch.
        payload: Its beginning.
        payload_bytes: Of the whole payload.
    """

    left_out: int
    msgid: Annotated[str, Fact(answered=str.upper)] = ""
    topic: str = ""
    qos: int = 0
    retain: bool = False
    clientid: Annotated[str, Fact("from_clientid")] = ""
    username: Annotated[str | None, Fact("from_username")] = None
    received_at: Time = 0
    payload: Annotated[bytes, Fact(is_shown=False)] = b""
    payload_bytes: int = 0
    properties: Annotated[dict[str, object] | None, Fact(unknown={}, answers=dict[str, object])] = None


MESSAGES_TAIL = ListAsk("messages.tail", TailWanted, TailRow, ONE)
