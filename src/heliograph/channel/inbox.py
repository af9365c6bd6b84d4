"""Bytes of a connection that do not make a packet yet, or that must wait for their turn."""

from mypy_extensions import i64


class Inbox:
    """The beginning of what has yet to be parsed, in the pieces it came in; owned by the channel."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._bytes: i64 = 0
        self._wanted: i64 = 0  # how many bytes make the packet, if known

    @property
    def size_bytes(self) -> int:
        return self._bytes if self._pieces else 0

    def keep(self, rest: bytes, wanted_bytes: i64) -> None:
        """Keep what could not be parsed; it is enough again when `wanted_bytes` are there (0: whatever comes)."""
        self._pieces = [rest]
        self._bytes = len(rest)
        self._wanted = wanted_bytes

    def join(self, data: bytes) -> bytes | None:
        """All bytes, now that `data` came, or None while the packet is not complete.

        Pieces are joined once: joining at each read would cost the square of the packet's size.
        """
        if not self._pieces:
            return data
        pieces = self._pieces
        pieces.append(data)
        self._bytes += len(data)
        if self._bytes < self._wanted:
            if len(pieces) > 64 + (self._bytes >> 8):
                self._pieces = [b"".join(pieces)]  # a piece costs 48 bytes beside its content
            return None
        self._pieces = []
        self._wanted = 0
        return b"".join(pieces)
