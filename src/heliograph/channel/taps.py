"""Packet taps: something that sees every packet of some connections, in both directions. Others pay nothing for them.

A tap stands between reader and conversation, and between outbox and transport. Neither knows of it.
"""

from mypy_extensions import i64, mypyc_attr

from heliograph.channel.conversation import Conversation
from heliograph.channel.reader import Reader
from heliograph.mqtt.errors import ProtocolError


@mypyc_attr(allow_interpreted_subclasses=True)
class PacketTap:
    """Sees the packets of one connection. Nothing here may block or raise."""

    def on_received(self, packet: bytes) -> None:
        """A packet came, and is handled next."""
        raise NotImplementedError(type(self).__name__)

    def on_handled(self) -> None:
        raise NotImplementedError(type(self).__name__)

    def on_sent(self, data: bytes) -> None:
        raise NotImplementedError(type(self).__name__)

    def on_error(self, detail: str) -> None:
        raise NotImplementedError(type(self).__name__)

    def on_gone(self) -> None:
        raise NotImplementedError(type(self).__name__)


class TappedConversation(Conversation):
    """Hands packets on to a conversation, and tells a tap of them; as the reader, and what it waits for, call it."""

    def __init__(self, conversation: Conversation, tap: PacketTap) -> None:
        self.conversation = conversation
        self.tap = tap

    def dispatch(self, data: bytes, pos: i64, body: i64, stop: i64) -> None:
        self.tap.on_received(data[pos:stop])
        try:
            self.conversation.dispatch(data, pos, body, stop)
        finally:
            self.tap.on_handled()

    def on_protocol_error(self, error: ProtocolError) -> None:
        self.tap.on_error(error.detail)
        self.conversation.on_protocol_error(error)

    def go_on(self) -> None:
        self.conversation.go_on()

    def report(self, detail: str) -> None:
        self.conversation.report(detail)

    def end(self, code: int, reason: str, detail: str = "") -> None:
        self.conversation.end(code, reason, detail)

    def on_parted(self) -> None:
        self.tap.on_gone()
        self.conversation.on_parted()


def attach(reader: Reader, tap: PacketTap) -> i64:
    """Show a tap every packet from now on; return how many bytes of the outbox leave first.

    These are whole packets at their end, but may begin within one.
    """
    detach(reader)
    conversation = reader.conversation
    if conversation is not None:
        reader.conversation = TappedConversation(conversation, tap)
        reader.outbox.set_tap(tap.on_sent)
    return reader.outbox.waiting_bytes


def detach(reader: Reader) -> None:
    tapped = reader.conversation
    if isinstance(tapped, TappedConversation):
        reader.conversation = tapped.conversation
        reader.outbox.set_tap(None)
