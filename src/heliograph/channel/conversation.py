"""A channel as its own parts call it: the reader, and the connect flow."""

from mypy_extensions import i64

from heliograph.broker.client import ClientInfo
from heliograph.channel import connect as decide
from heliograph.channel.authorization import Authorizer
from heliograph.channel.handles import ChannelHandle
from heliograph.channel.options import ChannelOptions
from heliograph.mqtt import packets as p
from heliograph.mqtt.errors import ProtocolError
from heliograph.session.session import Session
from heliograph.session.will import Will


class ConnectedClient:
    """What a channel must know of the client that it serves from now on; made by its connect flow.

    Args:
        session: Its session, open for this connection and not attached to it yet.
        packet_bytes_max: Bytes of the largest packet that it takes; 0 for anything.
        receive_maximum: How many messages at QoS 1 and 2 it takes unacknowledged.
        wants_reasons: Whether refusals carry a reason string [MQTT-3.1.2-29].
    """

    def __init__(
        self,
        client: ClientInfo,
        session: Session,
        authorizer: Authorizer,
        will: p.Will | None,
        packet_bytes_max: i64,
        receive_maximum: i64,
        wants_reasons: bool,
    ) -> None:
        self.client = client
        self.session = session
        self.authorizer = authorizer
        self.will = will
        self.packet_bytes_max: i64 = packet_bytes_max
        self._receive_maximum: i64 = receive_maximum
        self.wants_reasons = wants_reasons

    def set_options(self, options: ChannelOptions) -> None:
        self.authorizer.set_options(options)
        self.session.set_options(options.session, self._receive_maximum)

    def make_will(self, options: ChannelOptions, id_low: int, now_us: int) -> Will | None:
        will = self.will
        return None if will is None else decide.will(will, self.client, options, now_us, id_low, self.authorizer)


class Conversation(ChannelHandle):
    """One client's conversation, as those call it that are parts of it."""

    # --- for the reader

    def dispatch(self, data: bytes, pos: i64, body: i64, stop: i64) -> None:
        """Act on the packet that fills `data[pos:stop]` with its body at `body`."""
        raise NotImplementedError

    def on_protocol_error(self, error: ProtocolError) -> None:
        raise NotImplementedError

    def go_on(self) -> None:
        raise NotImplementedError

    def report(self, detail: str) -> None:
        raise NotImplementedError

    def on_parted(self) -> None:
        """The connection is gone, and the reader parts from it."""

    # --- for the connect flow

    def begin(self, connected: ConnectedClient) -> None:
        raise NotImplementedError

    def end(self, code: int, reason: str, detail: str = "") -> None:
        raise NotImplementedError
