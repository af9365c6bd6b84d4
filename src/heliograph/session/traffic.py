"""What went over one connection, packet by packet."""

from mypy_extensions import i64


class Traffic:
    """Counters of one connection; the base of its outbox, so that counting costs no step to another object.

    Attributes:
        received_bytes: What came from the peer; counted by its reader, as all that came.
        received_count: In so many reads.
        received_qos0: Of these, PUBLISH at QoS 0; the others alike.
        sent_count: In so many writes.
        sent_qos0: Of these, PUBLISH at QoS 0; the others alike; counted by its session.
        pings_count: Of these, answers to PINGREQ.
    """

    def __init__(self) -> None:
        self.received_bytes: i64 = 0
        self.received_count: i64 = 0
        self.received_packets: i64 = 0
        self.received_qos0: i64 = 0
        self.received_qos1: i64 = 0
        self.received_qos2: i64 = 0
        self.sent_bytes: i64 = 0
        self.sent_count: i64 = 0
        self.sent_packets: i64 = 0
        self.sent_qos0: i64 = 0
        self.sent_qos1: i64 = 0
        self.sent_qos2: i64 = 0
        self.pings_count: i64 = 0
