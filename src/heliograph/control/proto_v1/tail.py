"""Messages as they come: what is asked of a node, and answers."""

import msgspec

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
        received_at: In microseconds since the epoch.
        payload: Its beginning.
        payload_bytes: Of the whole payload.
    """

    left_out: int
    msgid: str = ""
    topic: str = ""
    qos: int = 0
    retain: bool = False
    clientid: str = ""
    username: str | None = None
    received_at: int = 0
    payload: bytes = b""
    payload_bytes: int = 0
    properties: dict[str, object] | None = None


MESSAGES_TAIL = ListAsk("messages.tail", TailWanted, TailRow, ONE)
