"""Messages for the storage tests: what a publisher would have sent."""

from collections.abc import Callable
from itertools import count

from heliograph.storage.interface import StoredMessage

MakeMessage = Callable[..., StoredMessage]


def message_maker() -> MakeMessage:
    """A function that makes messages, each with an id of its own."""
    numbers = count(1)

    def make(
        topic: str = "weather/EWR/obs",
        payload: bytes = b"{}",
        *,
        clientid: str = "c1",
        username: str | None = None,
        qos: int = 1,
        retain: bool = False,
        property_bytes: bytes = b"",
    ) -> StoredMessage:
        number = next(numbers)
        id_high = 1_700_000_000_000_000 + number
        return StoredMessage(id_high, number, topic, payload, qos, retain, clientid, username, property_bytes, 0)

    return make
