"""Publishes the broker's own messages, which `observe` makes, through the kernel."""

from collections.abc import Callable

from heliograph.broker.faults import PUBLISHING
from heliograph.broker.guid import IdSource
from heliograph.broker.message import make_message
from heliograph.broker.publishing import publish
from heliograph.broker.router import Route
from heliograph.channel.context import ChannelContext
from heliograph.events import event_messages
from heliograph.mqtt.errors import ProtocolError, TopicNameError
from heliograph.mqtt.topic import MAX_TOPIC_BYTES, topic_name_fault
from heliograph.observe.alarms import Retained
from heliograph.observe.outgoing import SYSTEM_CLIENTID, MessagePublisher
from heliograph.retainer.state_topics import StateTopics


class SystemPublisher(MessagePublisher, Retained):
    """Publishes and retains messages of the broker's own; owned by the node's kernel."""

    def __init__(self, context: ChannelContext) -> None:
        self._broker = context.broker
        self.states = context.broker.retained = StateTopics(context.broker.retained)
        self._context = context
        self._ids = IdSource(context.node, context.next_number())
        self._invalid = 0

    def wants(self, topic: str) -> bool:
        """Whether a message that is not retained would have a receiver: called twice for each connection."""
        broker = self._broker
        sink = broker.sink
        if not (
            broker.router.filters.is_awaited(topic)
            or broker.hooks.message_publish.is_wanted(topic)
            or (sink is not None and sink.wants(topic))
        ):
            return False
        if _name_fault(topic) is not None:
            self._invalid += 1
            return False
        return True

    def publish(self, topic: str, payload: bytes, retain: bool) -> None:
        """At QoS 0; a message whose topic no packet can hold is dropped and counted."""
        broker = self._broker
        broker.begin_turn(self._context.clock())
        try:
            route = self._route(topic)
            low = self._ids.next_low()
            message = make_message(broker.now_us, low, topic, payload, 0, retain, b"", SYSTEM_CLIENTID, None)
            publish(broker, message, route)
        except ProtocolError:
            self._invalid += 1
        except Exception as error:  # noqa: BLE001 - what waits behind it is published
            broker.faults.contain(PUBLISHING, error)

    def keep(self, topic: str, payload: bytes) -> None:
        """Make a message the retained one of its topic; it is not delivered now, and ends with the process.

        One whose topic no packet can hold is dropped and counted.
        """
        if len(topic.encode("utf-8")) > MAX_TOPIC_BYTES:
            self._invalid += 1
            return
        now, low = self._broker.now_us, self._ids.next_low()
        self.states.keep(make_message(now, low, topic, payload, 0, True, b"", SYSTEM_CLIENTID, None))

    def forget(self, topic: str) -> None:
        self.states.forget(topic)

    def work(self) -> int:
        return self._broker.work

    def defer(self, callback: Callable[[], None]) -> object:
        return self._context.defer(callback)

    def statistics(self) -> dict[str, int]:
        return {"system_messages.invalid": self._invalid}

    def _route(self, topic: str) -> Route:
        """The route of a topic; only those of events are remembered, since others hold client ids or are rare.

        Raises:
            ProtocolError: Nothing can be published to it.
        """
        broker = self._broker
        if topic.startswith(event_messages.PREFIX):
            return broker.route(topic.encode("utf-8"))
        fault = _name_fault(topic)
        if fault is not None:
            raise TopicNameError(fault)
        is_durable = broker.sink is not None and broker.sink.wants(topic)
        is_hooked = broker.hooks.message_publish.is_wanted(topic)
        return Route(topic.encode("utf-8"), topic, broker.router.filters.match(topic), is_durable, is_hooked, -1)


def _name_fault(topic: str) -> str | None:
    fault = topic_name_fault(topic, MAX_TOPIC_BYTES)
    if fault is None and len(topic.encode("utf-8")) > MAX_TOPIC_BYTES:
        return f"the topic name has more than {MAX_TOPIC_BYTES} bytes"
    return fault
