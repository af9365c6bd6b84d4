"""A QoS 2 PUBLISH that repeats what an earlier process of the node took: its message is known again, not published."""

from mypy_extensions import i64

from heliograph.broker import publishing
from heliograph.broker.durable_sink import NOT_STORED
from heliograph.broker.guid import IdSource
from heliograph.broker.message import Message
from heliograph.broker.pubsub import Broker
from heliograph.broker.repetition import Repetition
from heliograph.mqtt import packets as p
from heliograph.session.session import Session


def recall_taken(
    broker: Broker, session: Session, ids: IdSource, publish: p.Publish, username: str | None, expiry_s: i64
) -> i64:
    """Know a message again that an earlier process stored for a session.

    It is retained again: a crash may have taken its place among the retained messages.

    Returns:
        The ticket after which that is durable, `NOT_STORED` if nothing is to be, -1 for a message that is new.
    """
    awaiting = session.awaiting_rel
    packet_id: int = publish.packet_id
    repetition = Repetition(broker, publish, session.clientid, username, expiry_s)
    if not awaiting.recall(packet_id, repetition):
        return -1
    lost = awaiting.lost_retained(packet_id, repetition)
    if lost is None:
        return NOT_STORED
    low = ids.next_low()
    message = Message(broker.now_us, low, lost.topic, lost.publish, session.clientid, username, lost.expiry_s)
    return publishing.retain_again(broker, message)
