"""What can be asked of the retained messages of a node, and done with them."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from heliograph.broker.message import Message, make_message
from heliograph.broker.retained import RetainedMatches
from heliograph.control.checks import check_filter
from heliograph.control.proto_v1 import retained as proto
from heliograph.control.slices import in_slices
from heliograph.mqtt.errors import ProtocolError
from heliograph.mqtt.properties import ALLOWED_PUBLISH, properties_from_wire
from heliograph.mqtt.topic import SYS_PREFIX, has_wildcard, topic_name_fault
from heliograph.retainer.disk import DiskRetainer
from heliograph.retainer.retainer import Retainer
from heliograph.rpc.methods import Call, Method, NoArgs, RpcError
from heliograph.storage.errors import StorageError

_PAYLOAD_MAX: Final = 1 << 20
_LEVELS_MAX: Final = 65_536
_HALF: Final = 16  # digits of the id
_ID_MAX: Final = 1 << 63
_EVERYTHING: Final = ("#", f"{SYS_PREFIX}#")
_REMOVED_BETWEEN_COMMITS: Final = 500


def methods(retainer: Callable[[], Retainer | None]) -> list[Method]:
    """What can be asked: `retainer.info`, `topics`, `show`, `clean`, `reindex`, `index`, `export`, `import`.

    Args:
        retainer: The retainer now; None where nothing is retained.
    """
    answers = RetainedAnswers(retainer)
    return [
        proto.RETAINER_INFO.by(answers.info),
        proto.RETAINER_TOPICS.by(answers.topics),
        proto.RETAINER_SHOW.by(answers.show),
        proto.RETAINER_CLEAN.by(answers.clean),
        proto.RETAINER_REINDEX.by(answers.reindex),
        proto.RETAINER_INDEX.by(answers.index),
        proto.RETAINER_EXPORT.by(answers.export),
        proto.RETAINER_IMPORT.by(answers.take),
    ]


class RetainedAnswers:
    """Answers what is asked of retained messages; owned by the control socket.

    Args:
        retainer: The retainer now; None where nothing is retained.
    """

    def __init__(self, retainer: Callable[[], Retainer | None]) -> None:
        self._retainer = retainer

    def info(self, args: NoArgs, call: Call) -> proto.RetainedInfo:
        retainer = self._there()
        counts = retainer.statistics()
        streams = retainer.table.topics.stream_count if isinstance(retainer, DiskRetainer) else 0
        return proto.RetainedInfo(len(retainer), counts["retained.bytes"], streams, _storage(retainer), dict(counts))

    def topics(self, args: proto.RetainedTopics, call: Call) -> Iterator[Sequence[proto.RetainedRow]]:
        filters = (args.filter,) if args.filter else _EVERYTHING
        check_filter(filters[0])
        return in_slices(_rows(self._there(), filters, args), _length)

    def show(self, args: proto.RetainedTopic, call: Call) -> proto.RetainedMessageRow:
        if has_wildcard(args.topic):
            raise RpcError(
                "bad_arguments", f"{args.topic!r} is a filter, and one topic is shown; `retainer topics` lists"
            )
        retainer = self._there()
        message = retainer.listing(args.topic).next()
        if message is None:
            raise RpcError("not_found", f"no message is retained for the topic {args.topic!r}")
        properties = properties_from_wire(message.property_bytes, ALLOWED_PUBLISH).named()
        row = _row(message, int(retainer.read_expires_us))
        return proto.RetainedMessageRow(
            row, message.username, message.payload[: min(max(args.payload_max, 0), _PAYLOAD_MAX)], properties
        )

    async def clean(self, args: proto.RetainedClean, call: Call) -> proto.RetainedCleaned:
        """Delete what is there now. Ends when that is durable; deletes in turns of its own, and waits for the disk."""
        check_filter(args.filter)
        retainer = self._there()
        matches = retainer.match(args.filter)
        found = deleted = undurable = 0
        for topics in in_slices(_topics(matches)):
            await asyncio.sleep(0)
            found += len(topics)
            if args.dry_run:
                continue
            for removed in in_slices(retainer.remove(topic) or None for topic in topics):
                deleted += len(removed)
                undurable += len(removed)
                await asyncio.sleep(0)
            if undurable >= _REMOVED_BETWEEN_COMMITS:
                await _durable(retainer)
                undurable = 0
        if undurable:
            await _durable(retainer)
        return proto.RetainedCleaned(found, deleted)

    def reindex(self, args: NoArgs, call: Call) -> proto.RetainedIndex:
        retainer = self._there()
        retainer.reindex()
        return self.index(args, call)

    def index(self, args: NoArgs, call: Call) -> proto.RetainedIndex:
        retainer = self._there()
        return proto.RetainedIndex(retainer.index_state(), _storage(retainer))

    def export(self, args: proto.RetainedTopics, call: Call) -> Iterator[Sequence[proto.RetainedRecord]]:
        filters = (args.filter,) if args.filter else _EVERYTHING
        check_filter(filters[0])
        return in_slices(_records(self._there(), filters), lambda row: len(row.payload) + len(row.topic))

    async def take(self, args: proto.RetainedImport, call: Call) -> proto.RetainedImported:
        """Answer `retainer.import`: messages that are retained, and durable, when this is answered."""
        retainer, taken = self._there(), 0
        for record in args.messages:
            message = _message(record)
            retainer.retain(message)
            kept = retainer.listing(record.topic).next()
            taken += kept is not None and kept.guid == message.guid
            await asyncio.sleep(0)
        await _durable(retainer)
        return proto.RetainedImported(taken, len(args.messages) - taken)

    def _there(self) -> Retainer:
        retainer = self._retainer()
        if retainer is None:
            raise RpcError("not_enabled", "nothing is retained on this node (retainer.enable = false)")
        return retainer


def _storage(retainer: Retainer) -> str:
    return "disc" if isinstance(retainer, DiskRetainer) else "ram"


def _rows(
    retainer: Retainer, filters: Sequence[str], wanted: proto.RetainedTopics
) -> Iterator[proto.RetainedRow | None]:
    count = 0
    for topic_filter in filters:
        matches = retainer.listing(topic_filter)
        while not matches.is_done():
            message = matches.next()
            if message is None:
                yield None
                continue
            count += 1
            yield _row(message, int(retainer.read_expires_us)) if count > wanted.skip else None
            if count == wanted.limit + wanted.skip and wanted.limit:
                return


def _length(row: proto.RetainedRow) -> int:
    return len(row.topic) + len(row.clientid)


def _topics(matches: RetainedMatches) -> Iterator[str | None]:
    while not matches.is_done():
        message = matches.next()
        yield None if message is None else message.topic


def _row(message: Message, expires_us: int) -> proto.RetainedRow:
    return proto.RetainedRow(
        message.topic, message.qos, len(message.payload), message.clientid, message.id_high, expires_us,
        message.guid.hex(), message.username,
    )  # fmt: skip


def _durable(retainer: Retainer) -> asyncio.Future[None]:
    """Ends when what was changed is where it is kept.

    Raises:
        StorageError: The disk refuses it.
    """
    future = asyncio.get_running_loop().create_future()

    def done(error: StorageError | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    retainer.when_durable(done)
    return future


def _records(retainer: Retainer, filters: Sequence[str]) -> Iterator[proto.RetainedRecord | None]:
    for topic_filter in filters:
        matches = retainer.listing(topic_filter)
        while not matches.is_done():
            message = matches.next()
            yield None if message is None else _record(message)


def _record(message: Message) -> proto.RetainedRecord:
    return proto.RetainedRecord(
        message.topic,
        message.payload,
        message.qos,
        message.clientid,
        message.username,
        message.guid.hex(),
        message.property_bytes,
    )


def _message(record: proto.RetainedRecord) -> Message:
    """The message of a record.

    Raises:
        RpcError: It is not one.
    """
    fault = topic_name_fault(record.topic, _LEVELS_MAX)
    try:
        high, low = int(record.msgid[:_HALF], 16), int(record.msgid[_HALF:], 16)
        is_id = 0 <= high < _ID_MAX and 0 <= low < _ID_MAX
        if fault is not None or record.qos not in (0, 1, 2) or not record.payload or not is_id:
            raise ValueError(fault or "it has no payload, or a QoS or id that there is not")
        return make_message(
            high, low, record.topic, record.payload, record.qos, True, record.properties, record.clientid,
            record.username,
        )  # fmt: skip
    except (ValueError, ProtocolError) as error:
        raise RpcError(
            "bad_arguments", f"the retained message of {record.topic[:200]!r} is not valid: {error}"
        ) from None
