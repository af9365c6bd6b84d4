"""A subscription: which subscriber wants which filter, and how."""

from mypy_extensions import i64, mypyc_attr

from heliograph.broker.message import Message


@mypyc_attr(allow_interpreted_subclasses=True)
class Subscriber:
    """Whoever takes messages from the broker: a session, or a broker-internal consumer.

    Subclasses take each message at once and without waiting; what they cannot pass on they queue or drop.
    """

    def __init__(self, clientid: str) -> None:
        self.clientid = clientid

    def deliver(self, message: Message, subscription: "Subscription") -> None:
        """Take `message`, which matched `subscription`. Called in the publisher's turn; must not raise or block."""
        raise NotImplementedError(type(self).__name__)


class Subscription:
    """One filter of one subscriber with its options; owned by the subscriber, listed by the router.

    Args:
        qos: The granted maximum QoS.
        subscription_id: The MQTT 5 subscription identifier, 0 for none.
    """

    def __init__(
        self,
        subscriber: Subscriber,
        topic_filter: str,
        qos: i64,
        no_local: bool,
        retain_as_published: bool,
        retain_handling: i64,
        subscription_id: i64,
    ) -> None:
        self.subscriber = subscriber
        self.topic_filter = topic_filter
        self.slot: i64 = -1  # where it stands in its filter's list, so that leaving costs the same for any number
        self.qos = qos
        self.no_local = no_local
        self.retain_as_published = retain_as_published
        self.retain_handling = retain_handling
        self.subscription_id = subscription_id
        self.is_new = True  # until its retained messages were looked at
        # Nothing about it changes the packet, so that its receivers share one encoding.
        self.plain: bool = not retain_as_published and subscription_id == 0

    def set_options(
        self, qos: i64, no_local: bool, retain_as_published: bool, retain_handling: i64, subscription_id: i64
    ) -> None:
        """Replace the options, as a SUBSCRIBE with the same filter does [MQTT-3.8.4-3]."""
        self.qos = qos
        self.no_local = no_local
        self.retain_as_published = retain_as_published
        self.retain_handling = retain_handling
        self.subscription_id = subscription_id
        self.plain = not retain_as_published and subscription_id == 0

    def __repr__(self) -> str:
        return f"Subscription({self.subscriber.clientid!r} on {self.topic_filter!r}, qos={int(self.qos)})"
