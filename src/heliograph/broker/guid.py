"""Message ids: 128 bits of time, node, channel and sequence, in two halves.

The layout is EMQX's: timestamp (64 bits), node and process (48), sequence (16). A channel stands where EMQX has a
process. The sequence of a channel may wrap within one timestamp only if it published 65,536 messages in a microsecond.
"""

from typing import Final

from mypy_extensions import i64

_SEQUENCE_MASK: Final = 0xFFFF


class IdSource:
    """The id source of one channel; lives as long as the channel.

    Args:
        channel: The channel's number on this node, 32 bits; not reused while the node runs.
    """

    def __init__(self, node: int, channel: int) -> None:
        # 16 bits of node would not fit a signed 64-bit number, so the top bit of the node is left out.
        self._base: i64 = ((node & 0x7FFF) << 48) | ((channel & 0xFFFFFFFF) << 16)
        self._sequence: i64 = 0

    def next_low(self) -> i64:
        self._sequence = (self._sequence + 1) & _SEQUENCE_MASK
        return self._base | self._sequence

    def last_low(self) -> i64:
        return self._base | self._sequence
