"""Recognises repeated messages that a crash left stored without their packet identifiers."""

from itertools import islice
from typing import Final

from heliograph.broker.message import Message
from heliograph.broker.repetition import Repetition
from heliograph.durable_sessions import record
from heliograph.durable_sessions.journal import SessionJournal

# A client has as many of them as it may have messages without PUBREL, 100 by default.
_TRIED_MAX: Final = 256


def claim_orphan(journal: SessionJournal, clientid: str, repetition: Repetition) -> tuple[int, int] | None:
    """The id of the stored message that a PUBLISH repeats, which counts as claimed; None if there is none.

    What is compared is what is stored of a message. Where its id or its time went into that, the ids of those that are
    not claimed are tried in their order, which is the order that a client repeats them in.
    """
    message = repetition.stored_as_it_is()
    if message is None or message.qos != 2:  # only of those is it known which are not claimed
        return None
    found = _look_up(journal, message)
    if found is None and repetition.is_changed(message):
        found = _try_ids(journal, clientid, repetition)
    if found is None:
        return None
    key, value = found
    count, id_high, id_low = record.decode_orphans(value)
    if count > 1:
        journal.batch.put(key, record.encode_orphans(count - 1, id_high, id_low))
    else:
        journal.batch.delete(key)
    return id_high, id_low


def _look_up(journal: SessionJournal, message: Message) -> tuple[bytes, bytes] | None:
    key = _key(message)
    value = journal.get(key)
    return None if value is None else (key, value)


def _try_ids(journal: SessionJournal, clientid: str, repetition: Repetition) -> tuple[bytes, bytes] | None:
    some = islice(journal.scan(record.orphan_prefix(clientid)), _TRIED_MAX)
    for id_high, id_low, key, value in sorted((*record.decode_orphans(value)[1:], key, value) for key, value in some):
        message = repetition.stored_as(id_high, id_low)
        if message is not None and _key(message) == key:
            return key, value
    return None


def _key(message: Message) -> bytes:
    return record.orphan_key(message.clientid, message.publish.topic, message.payload, message.property_bytes)
