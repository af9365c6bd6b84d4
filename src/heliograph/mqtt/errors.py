"""What a peer can do wrong. Each class carries the reason code that its connection is closed with."""

from heliograph.mqtt import reason_codes as rc


class ProtocolError(Exception):
    """The peer broke the protocol; its connection ends with `reason_code`, and nothing else is disturbed.

    Args:
        detail: What was received and what is valid, for the log and for the reason string.
        reason_code: The MQTT 5 reason code; the channel maps it for MQTT 3 clients.
    """

    def __init__(self, detail: str, reason_code: int = rc.PROTOCOL_ERROR) -> None:
        super().__init__(detail)
        self.detail = detail
        self.reason_code = reason_code


class MalformedPacketError(ProtocolError):
    """Bytes that no packet of the protocol looks like (MQTT 5 section 4.13)."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail, rc.MALFORMED_PACKET)


class PacketTooLargeError(ProtocolError):
    """A packet beyond the maximum packet size that the broker announced."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail, rc.PACKET_TOO_LARGE)


class TopicNameError(ProtocolError):
    """A topic name that may not be published to."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail, rc.TOPIC_NAME_INVALID)
