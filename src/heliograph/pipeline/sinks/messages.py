"""What sinks share whose target takes or refuses each message by itself: which of them are still on their way.

What was taken is not sent again when the others are tried again. Each message has an identity, which is the same where
a batch runs again, so that a target or a consumer can tell doubles.
"""

import hashlib
from abc import abstractmethod
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, Final, Protocol

import pyarrow as pa

from heliograph.pipeline.sinks.interface import Guarantee, MicroBatch, Written
from heliograph.pipeline.sinks.retry import Attempts, TransientError
from heliograph.pipeline.sinks.rows import Rows
from heliograph.pipeline.sinks.servers import ServerSink

_CHUNK_ROWS: Final = 10_000
_DIGEST_BYTES: Final = 16


@dataclass(frozen=True)
class OutgoingMessage:
    """One message.

    Attributes:
        place: The topic, subject or queue, as the target has it.
        headers: Texts by name; for a target without headers, what else it takes of a row.
        identity: The same where its batch runs again with the same rows, and of no other message.
    """

    place: str
    body: bytes
    headers: dict[str, str]
    identity: str


@dataclass
class OnTheirWay:
    """The messages of a chunk on their way, by their numbers in it. Owned by the thread that sends them.

    Attributes:
        waiting: Those of which is not known whether the target takes them.
        refused: Why the target will never take some.
        problem: What was last said of one that is to be tried again.
    """

    waiting: dict[int, OutgoingMessage]
    refused: dict[int, str] = field(default_factory=dict)
    problem: str = ""

    def take(self, number: int) -> None:
        """The target has it."""
        self.waiting.pop(number, None)

    def refuse(self, number: int, reason: str) -> None:
        """The target will never take it."""
        if self.waiting.pop(number, None) is not None:
            self.refused[number] = reason


class MessageLink(Protocol):
    """A connection to a target of messages."""

    def send(self, outgoing: OnTheirWay) -> None:
        """Send those that wait, and wait for what the target says of each.

        Raises:
            SinkError: A person has to change something before the target takes them.
            TransientError: The target may take what waits when tried again, over another connection.
        """


@dataclass(frozen=True, kw_only=True)
class MessageSink(ServerSink):
    """A sink whose rows are messages."""

    guarantee: ClassVar[Guarantee] = Guarantee.AT_LEAST_ONCE

    @abstractmethod
    def connected(self) -> AbstractContextManager[MessageLink]:
        """A connection for a `with` block.

        Raises:
            SinkError: The target refuses it, or is denied.
            TransientError: There is none now.
        """

    @abstractmethod
    def message_of(self, chunk: dict[str, list[object]], index: int) -> tuple[str, bytes, dict[str, str]]:
        """Place, body and headers of a row, of what was derived from the rows of a chunk.

        Raises:
            ValueError: No message can be made of it.
        """

    def write(self, rows: Rows, batch: MicroBatch) -> Written:
        attempts = Attempts(self.retry, tell=batch.tell_retry)
        count = refused = size = 0
        for chunk in rows.chunks(_CHUNK_ROWS):
            outgoing = self._outgoing(chunk, batch, count)
            size += sum(len(message.body) for message in outgoing.waiting.values())
            attempts.run(partial(self._send, outgoing, batch))
            for index, reason in sorted(outgoing.refused.items()):
                batch.refuse(rows.row(chunk, index), reason)
            count += chunk.num_rows
            refused += len(outgoing.refused)
        return Written(
            figures={"rows": count - refused, "bytes": size, "refused": refused, "retries": attempts.retries}
        )

    def _send(self, outgoing: OnTheirWay, batch: MicroBatch) -> None:
        count = len(outgoing.waiting)
        if not count:
            return
        try:
            with batch.connections.opened(self.connected) as link:
                link.send(outgoing)
        except TransientError as error:
            error.has_progressed = len(outgoing.waiting) < count
            raise
        if outgoing.waiting:
            text = f"{len(outgoing.waiting)} of {count} messages were not taken: {outgoing.problem or 'no answer'}"
            raise TransientError(f"{self.target}: {text}", has_progressed=len(outgoing.waiting) < count)

    def _outgoing(self, chunk: pa.RecordBatch, batch: MicroBatch, begin: int) -> OnTheirWay:
        made = {derived.name: chunk.column(derived.column).to_pylist() for derived in self.derived}
        outgoing = OnTheirWay({})
        for index in range(chunk.num_rows):
            try:
                place, body, headers = self.message_of(made, index)
            except ValueError as error:
                outgoing.refused[index] = str(error)
                continue
            identity = _identity(batch, begin + index, place, body)
            outgoing.waiting[index] = OutgoingMessage(place, body, headers, identity)
        return outgoing


def _identity(batch: MicroBatch, number: int, place: str, body: bytes) -> str:
    """With a digest: should a batch that runs again bring its rows in another order, none is taken for another one."""
    digest = hashlib.blake2b(body, digest_size=_DIGEST_BYTES, key=place.encode("utf-8", "surrogatepass")[:64])
    return f"{batch.owner[:36]}-{batch.number}-{number}-{digest.hexdigest()}"
