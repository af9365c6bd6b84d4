"""A client's last will on its way to be published."""

from mypy_extensions import i64

from heliograph.broker.message import Message
from heliograph.session.access_check import AccessCheck


class Will:
    """A last will; made when its client connects or leaves, gone when it is published or taken back.

    Args:
        message: What is published; its topic has the client's mountpoint.
        access_check: Asked at that moment whether the client may publish it: its rights may have been revoked since
            it connected.
        peerhost: The address that its client connected from; empty if it is not known any more.

    Attributes:
        number: Under which it is saved with its session, rising from connection to connection; 0 if it is not.
        due_us: When it is to be published, on the monotonic clock; 0 while its client is connected.
    """

    def __init__(self, message: Message, delay_s: i64, access_check: AccessCheck | None, peerhost: str = "") -> None:
        self.message = message
        self.delay_s = delay_s
        self.access_check = access_check
        self.peerhost = peerhost
        self.number: i64 = 0
        self.due_us: i64 = 0

    def __repr__(self) -> str:
        return f"Will({self.message.topic!r}, {int(self.delay_s)} s after {self.message.clientid!r} leaves)"
