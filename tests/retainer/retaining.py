"""Short words for the tests of this room."""

from heliograph.broker.message import make_message
from heliograph.retainer.memory import Matches, MemoryRetainer


def retain(retainer: MemoryRetainer, topic: str, payload: bytes = b"x", *, expiry_s: int | None = None) -> bool:
    """Retain a message that is received now; whether it goes on to subscribers."""
    expiry = b"" if expiry_s is None else b"\x02" + expiry_s.to_bytes(4, "big")
    message = make_message(retainer.broker.now_us, 1, topic, payload, 0, True, expiry, "pub", None)
    return retainer.retain(message)


def read(matches: Matches) -> list[tuple[str, bytes]]:
    """What is left of some matches: topics and payloads."""
    return [(message.topic, message.payload) for message in matches]


def topics(retainer: MemoryRetainer, topic_filter: str = "#") -> list[str]:
    """The topics with a retained message that a filter matches, in alphabetical order."""
    return sorted(topic for topic, _ in read(retainer.match(topic_filter)))
