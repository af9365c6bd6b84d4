"""What can be asked of the delayed messages of a node, and done with them."""

from collections.abc import Iterator, Sequence
from typing import Final

from heliograph.control.proto_v1 import delayed as proto
from heliograph.control.slices import in_slices
from heliograph.policies.delayed import DelayedMessages, HeldMessage
from heliograph.rpc.methods import SLICE, Call, Method, NoArgs, RpcError

_PAYLOAD_SHOWN: Final = 256 << 10


def methods(messages: DelayedMessages) -> list[Method]:
    """What can be asked: `delayed.info`, `delayed.list`, `delayed.show`, `delayed.delete`.

    Args:
        messages: Those that are held.
    """
    answers = DelayedAnswers(messages)
    return [
        proto.DELAYED_INFO.by(answers.info),
        proto.DELAYED_LIST.by(answers.list),
        proto.DELAYED_SHOW.by(answers.show),
        proto.DELAYED_DELETE.by(answers.delete),
    ]


class DelayedAnswers:
    """Answers what is asked of delayed messages; owned by the control socket.

    Args:
        messages: Those that are held.
    """

    def __init__(self, messages: DelayedMessages) -> None:
        self._messages = messages

    def info(self, args: NoArgs, call: Call) -> proto.DelayedInfo:
        storage = "ram" if self._messages.store is None else "disc"
        return proto.DelayedInfo(storage, dict(self._messages.statistics()))

    def list(self, args: proto.DelayedPage, call: Call) -> Iterator[Sequence[proto.DelayedRow]]:
        """Answer `delayed.list`: what is held, in the order in which it came."""
        return in_slices(self._rows(args), _length)

    def _rows(self, wanted: proto.DelayedPage) -> Iterator[proto.DelayedRow | None]:
        after, count = wanted.after, 0
        while page := self._messages.held_after(after, SLICE):
            after = page[-1].number
            for held in page:
                if self._messages.find(held.number) is not held or wanted.topic not in ("", held.message.topic):
                    yield None
                    continue
                count += 1
                yield self._row(held) if count > wanted.skip else None
                if count == wanted.limit + wanted.skip and wanted.limit:
                    return

    def show(self, args: proto.DelayedNumber, call: Call) -> proto.DelayedMessageRow:
        held = self._messages.find(args.id)
        if held is None:
            raise _not_found(args.id)
        return proto.DelayedMessageRow(self._row(held), held.message.payload[:_PAYLOAD_SHOWN])

    def delete(self, args: proto.DelayedNumber, call: Call) -> proto.DelayedRow:
        """Answer `delayed.delete`: let one go, unpublished."""
        held = self._messages.remove(args.id)
        if held is None:
            raise _not_found(args.id)
        return self._row(held)

    def _row(self, held: HeldMessage) -> proto.DelayedRow:
        message = held.message
        return proto.DelayedRow(
            held.number,
            message.topic,
            message.qos,
            len(message.payload),
            message.clientid,
            message.username,
            message.id_high,
            held.due_at,
        )


def _length(row: proto.DelayedRow) -> int:
    return len(row.topic) + len(row.clientid) + len(row.username or "")


def _not_found(number: int) -> RpcError:
    return RpcError("not_found", f"no delayed message has the id {number}; `delayed list` shows those that are held")
