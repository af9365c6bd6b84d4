"""The message queue against a list that follows the rule word for word."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.broker.message import NEVER, Message
from heliograph.broker.subscription import Subscriber, Subscription
from heliograph.session.mqueue import Delivery, MessageQueue
from support.packets import publish


SUBSCRIPTION = Subscription(Subscriber("sub"), "#", 2, False, False, 0, 0)


def delivery(qos: int, topic: str = "t") -> Delivery:
    return Delivery(Message(1, 1, topic, publish(topic), "pub", None, NEVER), qos, False, SUBSCRIPTION)


class NaiveQueue:
    """If the queue is full, drop QoS 0 messages if they are stored, otherwise the oldest one."""

    def __init__(self, len_max: int, store_qos0: bool) -> None:
        self.len_max = len_max
        self.store_qos0 = store_qos0
        self.waiting: list[Delivery] = []

    def push(self, new: Delivery) -> Delivery | None:
        if new.qos == 0 and not self.store_qos0:
            return new
        dropped = None
        if self.len_max and len(self.waiting) == self.len_max:
            qos0 = [one for one in self.waiting if one.qos == 0]
            if not qos0 and new.qos == 0:
                return new
            dropped = qos0[0] if qos0 else self.waiting[0]
            self.waiting.remove(dropped)
        self.waiting.append(new)
        return dropped


@pytest.mark.parametrize("store_qos0", [True, False])
@given(len_max=st.integers(0, 4), steps=st.lists(st.integers(-1, 2), min_size=20, max_size=200))
def test_the_queue_follows_the_drop_policy(store_qos0: bool, len_max: int, steps: list[int]) -> None:
    queue, naive = MessageQueue(len_max, store_qos0), NaiveQueue(len_max, store_qos0)
    for step in steps:
        if step < 0:
            assert queue.pop() is (naive.waiting.pop(0) if naive.waiting else None)
        else:
            new = delivery(step)
            assert queue.push(new) is naive.push(new)
        assert queue.count == len(naive.waiting)
    while naive.waiting:
        assert queue.pop() is naive.waiting.pop(0)
    assert queue.pop() is None


def test_a_queue_that_drops_for_ever_stays_small() -> None:
    queue = MessageQueue(10, True)
    for _ in range(10):
        queue.push(delivery(1))
    queue.pop()
    for _ in range(10_000):
        queue.push(delivery(0))
    assert queue.count == 10
    assert len(queue._waiting) < 100
    assert len(queue._qos0) < 100
