"""Exclusive topics: those that only one client may be subscribed to at a time, and who has them."""

from heliograph.broker.subscription import Subscriber
from heliograph.broker.walkable import Listed, ListWalk, WalkableList


class ExclusiveTopic(Listed):
    """A topic that is taken, as the broker knows it, with its mountpoint."""

    def __init__(self, topic: str, holder: Subscriber) -> None:
        super().__init__()
        self.topic = topic
        self.holder = holder


class ExclusiveTopics:
    """Those of a node that are taken; owned by the broker."""

    def __init__(self) -> None:
        self._taken: dict[str, ExclusiveTopic] = {}
        self._listed: WalkableList[ExclusiveTopic] = WalkableList()

    def __len__(self) -> int:
        return len(self._taken)

    def holder(self, topic: str) -> Subscriber | None:
        taken = self._taken.get(topic)
        return None if taken is None else taken.holder

    def take(self, topic: str, holder: Subscriber) -> None:
        taken = self._taken.get(topic)
        if taken is not None:
            taken.holder = holder
            return
        taken = ExclusiveTopic(topic, holder)
        self._taken[topic] = taken
        self._listed.add(taken)

    def release(self, topic: str, holder: Subscriber) -> None:
        """A topic is free again, if it was still that one's."""
        taken = self._taken.get(topic)
        if taken is not None and taken.holder is holder:
            del self._taken[topic]
            self._listed.remove(taken)

    def walk(self) -> ListWalk[ExclusiveTopic]:
        return self._listed.walk()
