"""How a message that was read back from storage becomes one that a session can be given.

Storage and sessions do not import each other; this is the lowest package that imports both.
"""

from heliograph.broker.message import Message, make_message
from heliograph.storage.interface import StoredMessage


def message_of(stored: StoredMessage) -> Message:
    """A stored message as the kernel knows it; it has no ticket, since its commit is done."""
    return make_message(
        stored.id_high,
        stored.id_low,
        stored.topic,
        stored.payload,
        stored.qos,
        stored.retain,
        stored.property_bytes,
        stored.clientid,
        stored.username,
    )
