"""What became of messages: found by id, topic, time and client, as far as it was recorded."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

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
from heliograph.control.refusals import ClientTroubles
from heliograph.control.saved_filters import SavedFilters, waits_for
from heliograph.control.slices import LoopTurn, in_slices
from heliograph.mqtt.topic import bare_filter, split_share, topic_matches
from heliograph.rpc.codes import BAD_ARGUMENTS
from heliograph.rpc.methods import Call, Method, NoArgs, RpcError
from heliograph.session.durable import DurableSession
from heliograph.session.session import Session
from heliograph.settings.units import check_topic_filter
from heliograph.storage.errors import StorageError
from heliograph.tracing.reasons import why_dropped

if TYPE_CHECKING:
    from heliograph.control.way_texts import WayText
    from heliograph.tracing.ways.chunks import WayRecord
    from heliograph.tracing.ways.message_ways import MessageWays
    from heliograph.tracing.ways.query import WayQuery

STORAGE_FAILED: Final = "storage_failed"
LIMIT_MAX: Final = 2000
_ID_DIGITS: Final = 32
_BEGINNINGS_MAX: Final = 50  # that are looked for by themselves
_ROWS_AT_ONCE: Final = 64
_LOOKED_AT_ONCE: Final = 1000  # ways, before the caller may give up

Id = tuple[int, int]


class RecordedWays(Protocol):
    """Where ways are recorded."""

    settings: MessageWaysConfig

    @property
    def ways(self) -> "MessageWays | None":
        """What was recorded; None where nothing ever was."""


def methods(recorded: RecordedWays, context: ChannelContext, troubles: ClientTroubles) -> list[Method]:
    answers = WaysAnswers(recorded, context, troubles)
    return [
        MESSAGE_WAYS_LIST.by(answers.listed),
        MESSAGE_WAYS_SHOW.by(answers.show),
        MESSAGE_WAYS_STATE.by(answers.state),
    ]


class WaysAnswers:
    def __init__(self, recorded: RecordedWays, context: ChannelContext, troubles: ClientTroubles) -> None:
        self._recorded = recorded
        self._troubles = troubles
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
        _check_outcomes(args.outcomes)
        before = _id_of(args.before) if args.before else None
        query, saved = WayQuery(args.topic, args.clientid, args.since_us, before), SavedFilters(self._context)
        rows: list[WayRow] = []
        count = looked = 0
        turn = LoopTurn()
        async with aclosing(self._found(query)) as found:
            async for pieces in found:
                looked += 1
                way = await self._settled(_way(pieces), saved)
                if way.is_wanted(args.outcomes, args.reason):
                    count += 1
                    rows.append(way.row())
                if count == args.limit:
                    break
                if len(rows) == _ROWS_AT_ONCE or looked % _LOOKED_AT_ONCE == 0:
                    for some in in_slices(rows, _length):
                        yield some
                    rows = []
                await turn.pause()
        for some in in_slices(rows, _length):
            yield some

    async def show(self, args: WayWanted, call: Call) -> MessageWay:
        pieces = await self._pieces(_id_of(args.message_id))
        if not pieces:
            raise RpcError("not_found", self._why_absent(args.message_id))
        way = await self._settled(_way(pieces), SavedFilters(self._context))
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

    async def _found(self, query: "WayQuery") -> "AsyncGenerator[list[WayRecord]]":
        """The messages that are wanted, the newest first, each with all that was found of it."""
        ways = self._recorded.ways
        if ways is None:
            return
        pieces: dict[Id, list[WayRecord]] = {}
        looked = 0
        with _answering_errors():
            async for written_us, records in ways.search(query):
                for record in records:
                    pieces.setdefault(record.id, []).append(record)
                for one in sorted((one for one in pieces if one[0] > written_us), reverse=True):
                    looked += not _is_begun(pieces[one])
                    if found := await self._whole(one, pieces.pop(one), looked):
                        yield found
            for one in sorted(pieces, reverse=True):
                looked += not _is_begun(pieces[one])
                if found := await self._whole(one, pieces[one], looked):
                    yield found

    async def _whole(self, one: Id, pieces: "list[WayRecord]", looked: int) -> "list[WayRecord]":
        """With its beginning, which does not meet every query that what came later meets."""
        return pieces if _is_begun(pieces) or looked > _BEGINNINGS_MAX else await self._pieces(one)

    async def _settled(self, way: "WayText", saved: SavedFilters) -> "WayText":
        """The way of a message; of a stored one that no client got so far, with the sessions for which it waits."""
        way.end_waits(self._has_ended)
        if way.is_unclaimed:
            *_, topic = way.record.topics()
            record = way.record
            claimants = await saved.claimants(topic, record.at_us, record.clientid, record.qos)
            if claimants is not None:
                way.waits_for(claimants.waiting, claimants.passed_by, int(self._context.broker.now_us))
        return way

    def _has_ended(self, clientid: str, at_us: int) -> bool:
        """Whether the session that a client had then has ended."""
        sessions = self._context.sessions
        if sessions.durability is not None and not sessions.durability.knows_all:
            return False
        session = sessions.held(clientid)
        return not sessions.knows(clientid) if session is None else int(session.created_at_us) > at_us

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
            return "no message is retained for its topic now: it was cleared, or has expired"
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
        if way.record.left_out_count:
            return f"what became of it at {clientid} is not known: it has more receivers than are recorded"
        sessions = self._context.sessions
        session = sessions.held(clientid)
        if not sessions.knows(clientid):
            why = self._troubles.about_session(clientid)
            return f"{clientid} was not among its receivers, and has no session now{why}"
        *_, topic = way.record.topics()
        matching = await self._saved(clientid, topic) if session is None else _matching(session, topic)
        if not matching:
            why = self._troubles.about_topic(clientid, topic)
            return f"{clientid} was not among its receivers: it has no subscription that matches {topic}{why}"
        return self._of_subscription(way, clientid, session, matching)

    def _of_subscription(self, way: "WayText", clientid: str, session: Session | None, matching: "Matching") -> str:
        """Why a client that has subscriptions which match a topic was not among the receivers of a message to it."""
        absent, at_us = f"{clientid} was not among its receivers", way.record.at_us
        own = {name: one for name, one in matching.items() if not one.shared}
        if not own:
            name, one = next(iter(matching.items()))
            members = [receiver.clientid for receiver in way.receivers if receiver.topic_filter == one.shared]
            if members:
                return f"{absent}: of its group {name}, {members[0]} was chosen"
            return f"{absent}: its subscription {name} matches, but was made later"
        before = {name: one for name, one in own.items() if one.made_us <= at_us}
        if session is not None and not isinstance(session, DurableSession):
            return f"{absent}: its subscription {next(iter(own))} matches, but was made later"
        if not before:
            return f"{absent}: its subscription {next(iter(own))} matches, but was made later"
        name, one = next(iter(before.items()))
        if way.record.clientid == clientid and all(one.no_local for one in before.values()):
            return f"{absent}: {why_dropped('no_local')}"
        if not way.is_stored:
            return (
                f"{absent}: its subscription {name} matches, but its session was on the disk only, and the message is "
                "not stored (durable_storage.messages.topics)"
            )
        if isinstance(session, DurableSession) and not session.backlog.behind:
            return (
                f"{absent}: its subscription {name} matches, and nothing waits in storage for it now: it was made "
                "later, or got the message while that was not recorded"
            )
        if way.record.expiry_s >= 0 and at_us + way.record.expiry_s * 1_000_000 <= int(self._context.broker.now_us):
            return f"{clientid} does not get it: its expiry interval passed while it waited in storage"
        if not waits_for(self._context, clientid, at_us, way.record.qos, one.qos):
            where = "mqtt.mqueue_store_qos0" + ("" if session is not None else ", unless its zone says otherwise")
            return f"{clientid} does not get it: QoS 0 does not wait for it ({where})"
        when = "when it is back" if session is None or not session.attached else "behind what waits before it"
        return f"{clientid} gets it {when}: it waits in storage, and the subscription {name} matches"

    async def _saved(self, clientid: str, topic: str) -> "Matching":
        """The subscriptions that match of a session that is on the disk only."""
        durability, found = self._context.sessions.durability, {}
        for page in () if durability is None else durability.saved_subscriptions(clientid):
            for one in page:
                topic_filter = one.mountpoint + bare_filter(one.name)
                if topic_matches(topic, topic_filter):
                    shared = _shared(split_share(one.name)[0], topic_filter)
                    found[one.name] = _Match(int(one.made_us), shared, int(one.qos), bool(one.no_local))
            await asyncio.sleep(0)
        return found


class _Match(NamedTuple):
    """A subscription that matches: when it was made, in commit time; 0 where that is too long ago to matter."""

    made_us: int
    shared: str  # as ways call the subscription of a group; empty for others
    qos: int
    no_local: bool


Matching = dict[str, _Match]


def _matching(session: Session, topic: str) -> Matching:
    beginnings = session.backlog.beginnings if isinstance(session, DurableSession) else {}
    return {
        name: _Match(
            int(beginnings[name].stored_us) if name in beginnings else 0,
            _shared(one.group, one.topic_filter),
            int(one.qos),
            bool(one.no_local),
        )
        for name, one in session.subscriptions.items()
        if topic_matches(topic, one.topic_filter)
    }


def _shared(group: str, topic_filter: str) -> str:
    return f"$share/{group}/{topic_filter}" if group else ""


def _is_begun(pieces: "Sequence[WayRecord]") -> bool:
    return any(record.is_begun for record in pieces)


def _check_outcomes(outcomes: Sequence[str]) -> None:
    from heliograph.control.way_texts import DROPPED, OUTCOMES

    for one in outcomes:
        if one not in (*OUTCOMES, DROPPED):
            valid = ", ".join((*OUTCOMES, DROPPED))
            raise RpcError(BAD_ARGUMENTS, f"outcome: {one[:80]!r} is no outcome; {valid} are valid")


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
