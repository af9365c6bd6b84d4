"""About how much memory a session has."""

from typing import Final

from mypy_extensions import i64

from heliograph.session.mqueue import size_of
from heliograph.session.session import Session

# What a subscription costs beside its filter, and an open identifier of QoS 2; see docs/security.md.
_SUBSCRIPTION_BYTES: Final = 300
_IDENTIFIER_BYTES: Final = 100
_LOOKED_NAMES: Final = 16


def held_bytes(session: Session) -> tuple[int, int, int]:
    """About how many bytes its subscriptions, its messages and its open QoS 2 identifiers have."""
    subscriptions = session.subscriptions
    count: i64 = len(subscriptions)
    name_bytes: i64 = 0
    looked: i64 = 0
    for name in subscriptions:  # some stand for all: a client may have a hundred thousand
        name_bytes += len(name)
        looked += 1
        if looked >= _LOOKED_NAMES:
            break
    if looked > 0:
        name_bytes = count * (_SUBSCRIPTION_BYTES + name_bytes // looked)
    queue = session.sender.queue
    queue_bytes: i64 = 0 if queue is None else queue.size_bytes
    for delivery in session.sender.window.deliveries.values():
        queue_bytes += size_of(delivery.message)
    identifiers: i64 = 0 if session.unreleased is None else len(session.unreleased)
    return name_bytes, queue_bytes, identifiers * _IDENTIFIER_BYTES
