"""Checks the indexes of a keyed database, and rebuilds them from its messages.

A message's key has its whole topic, so the learned structure, the counts and the index of expiring messages follow from
the messages alone.
"""

from collections.abc import Iterable
from typing import Final

from heliograph.storage.columnar.salvage import is_damage
from heliograph.storage.engine import Rdict, new_batch, records
from heliograph.storage.interface import KeyedOptions
from heliograph.storage.keyed import records as records_of
from heliograph.storage.keyed.topics import KeyedTopics

_BATCH_BYTES: Final = 4 << 20


def structure_problem(rocks: Rdict, name: str) -> str | None:
    """What is wrong with the learned structure of a keyed database, None for nothing."""
    meta_key, layout_key = records_of.layout_keys()
    layout = records_of.read_layout(rocks.get(meta_key), rocks.get(layout_key))
    if not layout.thresholds:
        return "the records that say what it is, are missing"
    topics = KeyedTopics(name, KeyedOptions().nodes_max)
    try:
        topics.load(rocks, layout.thresholds)
    except ValueError as error:
        return f"its topic structure: {error}"
    lost = next(records(rocks, *records_of.messages_behind(topics.stream_count)), None)
    return None if lost is None else "there are messages that its topic structure does not know"


def write_anew(source: Rdict, target: Rdict, name: str, messages: Iterable[tuple[bytes, bytes]]) -> int:
    """Make a keyed database of messages; returns how many it has.

    Args:
        source: The one that they are from, for how it learns topics.
        messages: Keys and records of messages; of others, nothing is taken.
    """
    layout = _layout(source)
    options = KeyedOptions()
    thresholds = layout.thresholds or options.wildcard_thresholds
    topics = KeyedTopics(name, options.nodes_max)
    topics.load(target, thresholds)
    count = message_bytes = last_time = size = 0
    batch = new_batch()
    for key, record in messages:
        if not records_of.is_message(key):
            continue
        new_key = topics.learn(records_of.topic_of(key))
        stored_at, expires_us = records_of.times(record)
        batch.put(new_key, record)
        if expires_us:
            batch.put(records_of.due_key(expires_us, new_key), b"")
        count += 1
        message_bytes += len(new_key) + len(record)
        last_time = max(last_time, stored_at)
        size += len(record)
        if size >= _BATCH_BYTES:
            target.write(batch)
            batch, size = new_batch(), 0
    topics.stage(batch)
    for key, record in records_of.layout_record(name, thresholds, layout.since):
        batch.put(key, record)
    batch.put(records_of.COUNTS, records_of.pack_counts(count, message_bytes, last_time))
    target.write(batch)
    return count


def _layout(source: Rdict) -> records_of.LayoutRecord:
    """What a database says of itself; no thresholds where that cannot be read."""
    try:
        return records_of.read_layout(*(source.get(key) for key in records_of.layout_keys()))
    except Exception as error:
        if not is_damage(error) and not isinstance(error, ValueError):
            raise
        return records_of.LayoutRecord("", (), 0)
