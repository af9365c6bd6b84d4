"""Stored messages that are published again: read by a process, published by the node, at a bounded rate."""

import asyncio
import base64
import binascii
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import orjson

from heliograph.control.proto_v1.message_replays import (
    MESSAGE_REPLAYS_BEGIN,
    MESSAGE_REPLAYS_END,
    MESSAGE_REPLAYS_PUBLISH,
    MessageReplayEnd,
    MessageReplayOrder,
    ReplayedMessages,
)
from heliograph.control.proto_v1.messages import NewMessage, PublishedMessage, PublishProperties
from heliograph.management.asking.nodes import Node
from heliograph.management.replays.jobs import FINISHED, Job, Owner, State
from heliograph.management.web.reader_processes import MESSAGE_LINES
from heliograph.management.web.times import rfc3339
from heliograph.processes.programs import Programs
from heliograph.rpc.conversation import UnreachableError
from heliograph.rpc.methods import RpcError

#: Stands for the topic that a message had.
TOPIC: Final = "${topic}"
PAYLOAD_BYTES_MAX: Final = 1 << 20
_SECONDS_MAX: Final = 86_400.0
_REASONS_MAX: Final = 5
_UNHEARD: Final = 16
_TEXT_MAX: Final = 16_383
_USER: Final = "User-Property."


@dataclass(slots=True)
class RepublishedCounts:
    """What became of the messages so far.

    Attributes:
        reasons: Why messages were refused, the first few.
    """

    published: int = 0
    refused: int = 0
    too_large: int = 0
    reasons: list[str] = field(default_factory=list)


class MessageReplay(Job):
    """One replay of messages.

    Args:
        owner: Who began it.
        order: What was asked for, as its asker sees it again.
        node: Publishes, on behalf of its asker.
        wanted: The same for the audit; its id is that of the replay.
    """

    def __init__(self, owner: Owner, order: State, node: Node, wanted: MessageReplayOrder) -> None:
        super().__init__(MESSAGE_LINES, owner, order, _SECONDS_MAX)
        self.id = wanted.id
        self._node = node
        self._wanted = wanted
        self._counts = RepublishedCounts()
        self._due = 0.0

    async def begin(self, access: State, clientids: Sequence[str] | None, programs: Programs) -> None:
        """Begin it.

        Args:
            access: Where the storage reader is, and its token.
            programs: Starts its process.
        """
        wanted = self._wanted
        await self._node.ask(MESSAGE_REPLAYS_BEGIN(wanted))
        asked = {
            "database": wanted.database,
            "topic": wanted.topic,
            "start": wanted.start,
            "end": wanted.end,
            "clientids": clientids,
            "limit": wanted.limit,
            "payload_bytes": PAYLOAD_BYTES_MAX,
        }
        self.run(orjson.dumps({**asked, **access}), programs)

    async def take(self, report: State) -> None:
        """Publish what was read; the process waits meanwhile."""
        if "error" in report:
            self.fail(report["error"]["message"])
        elif "end" in report:
            self.state = FINISHED
            self._show(1.0)
        else:
            share_before = self.progress["share"]
            rows: list[State] = report["rows"]
            step = max(1, self._wanted.rate // 10)
            for at in range(0, len(rows), step):
                await self._publish(rows[at : at + step])
                self._show(share_before + (report["share"] - share_before) * min(1.0, (at + step) / len(rows)))
                self.tell()
            self._show(report["share"])

    async def ended(self) -> None:
        """Write it into the audit log."""
        counts = self._counts
        end = MessageReplayEnd(self.id, self.state, counts.published, counts.refused + counts.too_large)
        with suppress(RpcError, UnreachableError):  # the node is gone, and so is what it would have kept
            await self._node.ask(MESSAGE_REPLAYS_END(end))

    async def _publish(self, rows: Sequence[State]) -> None:
        await self._wait_for(len(rows))
        whole = [row for row in rows if row["payload_bytes"] <= PAYLOAD_BYTES_MAX]
        self._counts.too_large += len(rows) - len(whole)
        messages = [_again(row, self._wanted) for row in whole]
        try:
            asked = ReplayedMessages(self.id, messages)
            outcomes = await self._node.rows(MESSAGE_REPLAYS_PUBLISH(asked))
        except (RpcError, UnreachableError) as error:
            raise ValueError(f"the node does not publish: {error}") from error
        for one in outcomes:
            self._count(one)

    def _count(self, one: PublishedMessage) -> None:
        counts = self._counts
        if one.code in (0, _UNHEARD):
            counts.published += 1
            return
        counts.refused += 1
        if one.message not in counts.reasons and len(counts.reasons) < _REASONS_MAX:
            counts.reasons.append(one.message)

    async def _wait_for(self, count: int) -> None:
        """Wait until so many messages more are not too many a second."""
        now = asyncio.get_running_loop().time()
        wait_s = self._due - now
        self._due = max(self._due, now) + count / self._wanted.rate
        if wait_s > 0:
            await asyncio.sleep(wait_s)  # the rate that was asked for

    def _show(self, share: float) -> None:
        counts = self._counts
        self.progress = {
            "share": round(share, 4),
            "published": counts.published,
            "refused": counts.refused,
            "too_large": counts.too_large,
            **({"reasons": counts.reasons} if counts.reasons else {}),
        }


def _again(row: State, wanted: MessageReplayOrder) -> NewMessage:
    """A stored message as it is published again: with its properties but the expiry, and marked."""
    properties: dict[str, str] = row["properties"] or {}
    user = [(name.removeprefix(_USER), text) for name, text in properties.items() if name.startswith(_USER)]
    marks = [
        ("replayed-from", row["topic"][:_TEXT_MAX]),
        ("replayed-by", wanted.id),
        ("stored-at", rfc3339(row["stored_at"])),
    ]
    indicator = properties.get("Payload-Format-Indicator")
    return NewMessage(
        wanted.target.replace(TOPIC, row["topic"]),
        base64.b64decode(row["payload"]),
        row["qos"],
        False,
        PublishProperties(
            None if indicator is None else int(indicator),
            None,
            properties.get("Response-Topic"),
            _binary(properties.get("Correlation-Data")),
            properties.get("Content-Type"),
            [*user, *marks],
        ),
    )


def _binary(text: str | None) -> bytes | None:
    try:
        return None if text is None else base64.b64decode(text)
    except binascii.Error:
        return None
