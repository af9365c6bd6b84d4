"""Acknowledgements that wait for storage.

They leave in the order of the messages they answer, so one that waits for no commit
itself still waits behind those that do. A refused commit turns its acknowledgements into refusals.
"""

from mypy_extensions import i64

from heliograph.mqtt.encode import encode_ack


class AckBatch:
    """The acknowledgements that one commit releases."""

    def __init__(self, ticket: i64, stored: bool) -> None:
        self.ticket = ticket
        self.stored = stored  # False: they only wait behind that commit
        self.code = 0  # what became of the commit
        self.acks: list[bytes] = []


class PendingAcks:
    """The acknowledgements of one channel that are not sent yet, oldest first; owned by the channel."""

    def __init__(self) -> None:
        self._batches: list[AckBatch] = []
        self.count: i64 = 0

    def __bool__(self) -> bool:
        return len(self._batches) > 0

    def add(self, ticket: i64, ack: bytes) -> bool:
        """Hold back an acknowledgement for a commit (0: for none of its own).

        Returns:
            Whether nobody waited for that commit yet, so that it must be asked for.
        """
        self.count += 1
        batches = self._batches
        last = batches[-1] if batches else None
        if last is not None and (last.ticket == ticket or ticket == 0) and last.stored == (ticket != 0):
            last.acks.append(ack)  # 3.1.1 [MQTT-4.6.0-2] 3.1.1 [MQTT-4.6.0-3]
            return False
        batch = AckBatch(ticket if ticket != 0 or last is None else last.ticket, ticket != 0)
        batch.acks.append(ack)
        batches.append(batch)
        return ticket != 0

    def release(self, ticket: i64, code: int) -> list[AckBatch]:
        """Take out what may leave now that this commit is done: it holds (0), or was refused with `code`."""
        batches = self._batches
        for batch in batches:
            if batch.ticket == ticket:
                # One that a repetition waits for may stand behind later ones, and leaves with them.
                batch.code = code
        count = 0
        while count < len(batches) and batches[count].ticket <= ticket:
            count += 1
        released = batches[:count]
        for batch in released:
            self.count -= len(batch.acks)
        self._batches = batches[count:]
        return released


def refusal(ack: bytes, code: int) -> bytes:
    """The MQTT 5 acknowledgement that refuses what `ack` would have accepted."""
    packet_id = (ack[2] << 8) | ack[3]
    return encode_ack(ack[0] >> 4, packet_id, code, 5)  # [MQTT-2.2.1-5] [MQTT-3.4.2-1] [MQTT-3.5.2-1]
