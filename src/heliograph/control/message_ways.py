"""What became of messages: found by id, topic, time and client, as far as it was recorded."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from heliograph.channel.context import ChannelContext
from heliograph.config.monitoring import MessageWaysConfig
from heliograph.control.proto_v1.message_ways import (
    MESSAGE_WAYS_LIST,
    MESSAGE_WAYS_SHOW,
    MESSAGE_WAYS_STATE,
    MessageWay,
    WayRow,
    WaysState,
    WaysWanted,
    WayWanted,
)
from heliograph.control.slices import in_slices
from heliograph.mqtt.topic import bare_filter, topic_matches
from heliograph.rpc.codes import BAD_ARGUMENTS
from heliograph.rpc.methods import Call, Method, NoArgs, RpcError
from heliograph.session.durable import DurableSession
from heliograph.session.session import Session
from heliograph.settings.units import check_topic_filter
from heliograph.storage.errors import StorageError

if TYPE_CHECKING:
    from heliograph.control.way_texts import WayText
    from heliograph.tracing.ways.chunks import WayRecord
    from heliograph.tracing.ways.message_ways import MessageWays
    from heliograph.tracing.ways.query import WayQuery

STORAGE_FAILED: Final = "storage_failed"
LIMIT_MAX: Final = 2000
_ID_DIGITS: Final = 32
_BEGINNINGS_MAX: Final = 50  # that are looked for by themselves

Id = tuple[int, int]


class RecordedWays(Protocol):
    """Where ways are recorded."""

    settings: MessageWaysConfig

    @property
    def ways(self) -> "MessageWays | None":
        """What was recorded; None where nothing ever was."""


def methods(recorded: RecordedWays, context: ChannelContext) -> list[Method]:
    answers = WaysAnswers(recorded, context)
    return [
        MESSAGE_WAYS_LIST.by(answers.listed),
        MESSAGE_WAYS_SHOW.by(answers.show),
        MESSAGE_WAYS_STATE.by(answers.state),
    ]


class WaysAnswers:
    def __init__(self, recorded: RecordedWays, context: ChannelContext) -> None:
        self._recorded = recorded
        self._context = context

    def state(self, args: NoArgs, call: Call) -> WaysState:
        settings, ways = self._recorded.settings, self._recorded.ways
        counts = {} if ways is None else ways.statistics()
        return WaysState(
            settings.enable,
            list(settings.topics),
            list(settings.clients),
            counts.get("message_ways.recorded", 0),
            counts.get("message_ways.missed", 0) + counts.get("message_ways.unheld", 0),
            counts.get("message_ways.stored_bytes", 0),
            0 if ways is None else ways.store.oldest_us,
            int(settings.retention),
        )

    async def listed(self, args: WaysWanted, call: Call) -> AsyncIterator[Sequence[WayRow]]:
        """Answer `message_ways.list`, the newest first."""
        from heliograph.tracing.ways.query import WayQuery

        if not 1 <= args.limit <= LIMIT_MAX:
            raise RpcError(BAD_ARGUMENTS, f"limit is {args.limit}; 1 to {LIMIT_MAX} is valid")
        if args.topic:
            try:
                check_topic_filter(args.topic)
            except ValueError as error:
                raise RpcError(BAD_ARGUMENTS, f"topic: {args.topic[:200]!r} is no topic filter: {error}") from None
        before = _id_of(args.before) if args.before else None
        found = await self._found(WayQuery(args.topic, args.clientid, args.since_us, before), args.limit)
        for rows in in_slices((_way(pieces).row() for pieces in found), _length):
            yield rows

    async def show(self, args: WayWanted, call: Call) -> MessageWay:
        pieces = await self._pieces(_id_of(args.message_id))
        if not pieces:
            raise RpcError("not_found", self._why_absent(args.message_id))
        way = _way(pieces)
        asked = await self._asked(way, args.clientid) if args.clientid else ""
        return way.whole(asked, self._retained(way) if way.was_retained else "")

    # --- inside

    async def _pieces(self, only: Id) -> "list[WayRecord]":
        from heliograph.tracing.ways.query import WayQuery

        ways, found = self._recorded.ways, []
        if ways is not None:
            with _answering_errors():
                async for _, records in ways.search(WayQuery(only=only)):
                    found += records
        return found

    async def _found(self, query: "WayQuery", limit: int) -> "list[list[WayRecord]]":
        """The newest messages that are wanted, each with all that was found of it."""
        ways = self._recorded.ways
        if ways is None:
            return []
        pieces: dict[Id, list[WayRecord]] = {}
        with _answering_errors():
            async for written_us, records in ways.search(query):
                for record in records:
                    pieces.setdefault(record.id, []).append(record)
                if len(pieces) >= limit and sorted(pieces, reverse=True)[limit - 1][0] > written_us:
                    break
        newest = sorted(pieces, reverse=True)[:limit]
        looked = 0
        for one in newest:  # of some only what came later meets the query
            if not any(record.is_begun for record in pieces[one]) and looked < _BEGINNINGS_MAX:
                looked += 1
                pieces[one] = await self._pieces(one)
        return [pieces[one] for one in newest if pieces[one]]

    def _why_absent(self, message_id: str) -> str:
        settings = self._recorded.settings
        if not settings.enable:
            return f"nothing is recorded of message {message_id}: diagnose.messages.enable is false"
        return (
            f"nothing is recorded of message {message_id}: it is older than what is kept, or none of the messages "
            "that diagnose.messages records"
        )

    def _retained(self, way: "WayText") -> str:
        """Whether it is the retained message of its topic now."""
        store = self._context.broker.retained
        *_, topic = way.record.topics()
        try:
            now = None if store is None else store.match(topic).next()
        except StorageError:
            return ""
        if now is None:
            return "no message is retained for its topic now: it was cleared, has expired, or was not taken"
        if (int(now.id_high), int(now.id_low)) == way.record.id:
            return "it is the retained message of its topic now"
        return f"message {now.guid.hex()} has taken its place as the retained message of its topic"

    async def _asked(self, way: "WayText", clientid: str) -> str:
        """Why a client did not get a message, or that it did."""
        for one in way.receivers:
            if one.clientid == clientid:
                return f"{clientid}: {one.state.replace('_', ' ')}" + (f": {one.why}" if one.why else "")
        if not way.is_routed_or_stored:
            return f"{clientid} does not get it, nor does any other client: {way.why}"
        sessions = self._context.sessions
        session = sessions.held(clientid)
        if not sessions.knows(clientid):
            return f"{clientid} was not among its receivers, and has no session now"
        *_, topic = way.record.topics()
        is_durable = session is None or isinstance(session, DurableSession)
        matching = await self._saved(clientid, topic) if session is None else _matching(session, topic)
        if not matching:
            return f"{clientid} was not among its receivers: it has no subscription that matches {topic}"
        before = [name for name, made_us in matching.items() if is_durable and made_us <= way.record.at_us]
        if not before:
            name = next(iter(matching))
            return f"{clientid} was not among its receivers: its subscription {name} matches, but was made later"
        if not way.is_stored:
            return (
                f"{clientid} was not among its receivers: its subscription {before[0]} matches, but its session was on "
                "the disk only, and the message is not stored (durable_storage.messages.topics)"
            )
        when = "when it is back" if session is None or not session.attached else "behind what waits before it"
        return f"{clientid} gets it {when}: it waits in storage, and the subscription {before[0]} matches"

    async def _saved(self, clientid: str, topic: str) -> dict[str, int]:
        """The subscriptions that match of a session that is on the disk only, with when they were made."""
        durability, found = self._context.sessions.durability, {}
        for page in () if durability is None else durability.saved_subscriptions(clientid):
            for one in page:
                if topic_matches(topic, one.mountpoint + bare_filter(one.name)):
                    found[one.name] = int(one.made_us)
            await asyncio.sleep(0)
        return found


def _matching(session: Session, topic: str) -> dict[str, int]:
    """The subscriptions that match, with when they were made; 0 where that is too long ago to matter."""
    beginnings = session.backlog.beginnings if isinstance(session, DurableSession) else {}
    return {
        name: int(beginnings[name].stored_us) if name in beginnings else 0
        for name, one in session.subscriptions.items()
        if topic_matches(topic, one.topic_filter)
    }


def _length(row: WayRow) -> int:
    return len(row.topic) + len(row.clientid) + len(row.why)


def _way(pieces: "Sequence[WayRecord]") -> "WayText":
    from heliograph.control.way_texts import WayText  # a node that is not asked does without
    from heliograph.tracing.ways.query import joined

    return WayText(joined(pieces))


def _id_of(text: str) -> Id:
    try:
        number = int(text, 16) if len(text) == _ID_DIGITS and text.isalnum() else -1
    except ValueError:
        number = -1
    if number < 0:
        raise RpcError(BAD_ARGUMENTS, f"{text[:80]!r} is no message id: expected {_ID_DIGITS} hexadecimal digits")
    return number >> 64, number & 0xFFFFFFFFFFFFFFFF


@contextmanager
def _answering_errors() -> Iterator[None]:
    try:
        yield
    except (StorageError, msgspec.DecodeError, OSError) as error:
        raise RpcError(STORAGE_FAILED, f"the ways that were recorded cannot be read: {error}") from error
