"""Acknowledgements that wait for storage.

They leave in the order of the messages they answer, so one that waits for no commit
itself still waits behind those that do. A refused commit turns its acknowledgements into refusals.
"""

from mypy_extensions import i64


class AckBatch:
    """The acknowledgements that one commit releases."""

    def __init__(self, ticket: i64, stored: bool, joined: bool) -> None:
        self.ticket = ticket
        self.stored = stored  # False: they only wait behind that commit
        self.joined = joined  # other databases keep these messages too
        self.code = 0  # what became of the commit
        self.acks: list[bytes] = []


class PendingAcks:
    """The acknowledgements of one channel that are not sent yet, oldest first; owned by the channel."""

    def __init__(self) -> None:
        self._batches: list[AckBatch] = []
        self.count: i64 = 0

    def __bool__(self) -> bool:
        return len(self._batches) > 0

    def add(self, ticket: i64, ack: bytes, joined: bool = False) -> bool:
        """Hold back an acknowledgement for a commit (0: for none of its own).

        Args:
            joined: Whether the message goes to other databases too, whose refusals are its own.

        Returns:
            Whether nobody waited for that commit yet, so that it must be asked for.
        """
        self.count += 1
        batches = self._batches
        last = batches[-1] if batches else None
        is_same = last is not None and (last.ticket == ticket or ticket == 0) and last.stored == (ticket != 0)
        if last is not None and is_same and last.joined == joined:
            last.acks.append(ack)  # 3.1.1 [MQTT-4.6.0-2] 3.1.1 [MQTT-4.6.0-3]
            return False
        batch = AckBatch(ticket if ticket != 0 or last is None else last.ticket, ticket != 0, joined)
        batch.acks.append(ack)
        batches.append(batch)
        return ticket != 0

    def release(self, ticket: i64, code: int, joined_code: int = -1) -> list[AckBatch]:
        """Take out what may leave now that this commit is done: it holds (0), or was refused with `code`.

        Args:
            joined_code: The same for messages that other databases keep too; -1 where it is the same.
        """
        batches = self._batches
        for batch in batches:
            if batch.ticket == ticket:
                # One that a repetition waits for may stand behind later ones, and leaves with them.
                batch.code = joined_code if batch.joined and joined_code >= 0 else code
        count = 0
        while count < len(batches) and batches[count].ticket <= ticket:
            count += 1
        released = batches[:count]
        for batch in released:
            self.count -= len(batch.acks)
        self._batches = batches[count:]
        return released
