"""Recognises a repeated PUBLISH whose first copy was stored by an earlier process."""

from heliograph.broker.message import Message
from heliograph.broker.publishing import reshape
from heliograph.broker.pubsub import Broker
from heliograph.mqtt import packets as p


class Repetition:
    """A repeated PUBLISH at QoS 2; made where a crash may have lost that it was taken, gone with its answer.

    A message is stored as the callbacks of `message.publish` left it, and they may read its id and its time: so what is
    stored of it is known for the id that it was published under.

    Args:
        publish: The packet, with its whole topic: mountpoint and all, no alias.
        expiry_s: Its message expiry interval, or `NEVER`.
    """

    def __init__(self, broker: Broker, publish: p.Publish, clientid: str, username: str | None, expiry_s: int) -> None:
        self._broker = broker
        self._publish = publish
        self._clientid = clientid
        self._username = username
        self._expiry_s = expiry_s
        route = broker.route(publish.topic)
        self._topic = route.topic
        self._is_hooked = route.hooked

    def stored_as(self, id_high: int, id_low: int) -> Message | None:
        """The message that is stored if it was published under that id; None where it was not published at all."""
        clientid, username = self._clientid, self._username
        message = Message(id_high, id_low, self._topic, self._publish, clientid, username, self._expiry_s)
        return reshape(self._broker, message) if self._is_hooked else message

    def stored_as_it_is(self) -> Message | None:
        """As `stored_as`, where the message id is not read."""
        return self.stored_as(self._broker.now_us, 0)

    def is_changed(self, message: Message) -> bool:
        """Whether what is stored differs from what came, so that its id may matter."""
        return message.publish is not self._publish
