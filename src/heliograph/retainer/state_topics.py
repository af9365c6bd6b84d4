"""What is so now, as retained messages of the broker's own below `$SYS/`: alarms that go on.

They lie in memory in front of the retainer: a full disk, a limit or a retainer that is switched off hides no alarm,
and none outlives the process that raised it.
"""

from heliograph.broker.message import Message
from heliograph.broker.retained import RetainedMatches, RetainedStore
from heliograph.mqtt.topic import SYS_PREFIX, topic_matches


class StateTopics(RetainedStore):
    """The retained messages of a node: the broker's own here, all others in the store behind; owned by the node."""

    def __init__(self, store: RetainedStore | None) -> None:
        super().__init__()
        self._store: RetainedStore | None = None
        self._messages: dict[str, Message] = {}
        if store is not None:
            self.set_store(store)

    def set_store(self, store: RetainedStore | None) -> None:
        self._store = store
        self.batch_deliver_number = 0 if store is None else store.batch_deliver_number
        self.delivery_rate = None if store is None else store.delivery_rate

    def keep(self, message: Message) -> None:
        self._messages[message.topic] = message

    def forget(self, topic: str) -> None:
        self._messages.pop(topic, None)

    def find(self, topic: str) -> Message | None:
        return self._messages.get(topic)

    def retain(self, message: Message) -> bool:
        """Let the store behind keep or forget a message; return whether it goes on to subscribers."""
        return self._store is None or self._store.retain(message)

    def refusal_code(self) -> int:
        return 0 if self._store is None else self._store.refusal_code()

    def why_unkept(self) -> str:
        return "" if self._store is None else self._store.why_unkept()

    def may_match(self, topic_filter: str) -> bool:
        if self._messages and topic_filter.startswith(SYS_PREFIX):
            return True
        return self._store is not None and self._store.may_match(topic_filter)

    def match(self, topic_filter: str) -> RetainedMatches:
        """The retained messages whose topics a filter matches, the broker's own first."""
        store = self._store
        if store is not None and not (self._messages and topic_filter.startswith(SYS_PREFIX)):
            return store.match(topic_filter)
        topics = [topic for topic in self._messages if topic_matches(topic, topic_filter)]
        topics.reverse()
        return StateMatches(self, topics, None if store is None else store.match(topic_filter))

    def __repr__(self) -> str:
        return f"StateTopics({len(self._messages)} messages in front of {self._store!r})"


class StateMatches(RetainedMatches):
    def __init__(self, store: StateTopics, topics: list[str], others: RetainedMatches | None) -> None:
        super().__init__()
        self._store = store
        self._topics = topics
        self._others = others

    def next(self) -> Message | None:
        while self._topics:
            message = self._store.find(self._topics.pop())
            if message is not None:
                return message
        return None if self._others is None else self._others.next()

    def is_done(self) -> bool:
        return not self._topics and (self._others is None or self._others.is_done())
