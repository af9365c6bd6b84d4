"""The message queue against a list that follows the rule word for word."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.broker.message import NEVER, Message
from heliograph.broker.subscription import Subscriber, Subscription
from heliograph.session.mqueue import Delivery, MessageQueue, make_queue
from heliograph.session.options import SessionOptions
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

    def pop_qos0(self) -> Delivery | None:
        found = [one for one in self.waiting if one.qos == 0][:1]
        self.waiting = [one for one in self.waiting if one not in found]
        return found[0] if found else None


@pytest.mark.parametrize("store_qos0", [True, False])
@given(len_max=st.integers(0, 4), steps=st.lists(st.integers(-2, 2), min_size=20, max_size=200))
def test_the_queue_follows_the_drop_policy(store_qos0: bool, len_max: int, steps: list[int]) -> None:
    queue, naive = MessageQueue(len_max, store_qos0), NaiveQueue(len_max, store_qos0)
    for step in steps:
        if step == -2:
            assert queue.pop_qos0() is naive.pop_qos0()
        elif step == -1:
            assert queue.pop() is (naive.waiting.pop(0) if naive.waiting else None)
        else:
            new = delivery(step)
            assert queue.push(new) is naive.push(new)
        assert queue.count == len(naive.waiting)
        assert queue.holds_qos0() is any(one.qos == 0 for one in naive.waiting)
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


def test_taking_qos_0_out_of_turn_leaves_nothing_behind() -> None:
    queue = MessageQueue(0, True)
    for qos in [1] * 10 + [0] * 1000:
        queue.push(delivery(qos))
    while queue.pop_qos0() is not None:
        pass
    assert queue.count == 10
    assert len(queue._waiting) < 100


PRIORITIES = {"a": 3, "b": 2, "c": 2}


@given(
    len_max=st.integers(0, 3),
    steps=st.lists(
        st.tuples(st.sampled_from("abcd"), st.integers(0, 2)) | st.sampled_from(["pop", "qos0"]),
        min_size=20,
        max_size=120,
    ),
)
def test_priorities_are_a_queue_each(len_max: int, steps: list[tuple[str, int] | str]) -> None:
    options = SessionOptions(max_mqueue_len=len_max, mqueue_priorities=PRIORITIES, mqueue_default_priority=1)
    queue = make_queue(options)
    lanes = {priority: NaiveQueue(len_max, True) for priority in (3, 2, 1)}
    for step in steps:
        if isinstance(step, tuple):
            topic, qos = step
            new, lane = delivery(qos, topic), lanes[PRIORITIES.get(topic, 1)]
            assert queue.is_full(topic) is (0 < len_max == len(lane.waiting))
            assert queue.push(new) is lane.push(new)
        elif step == "pop":
            expected = next((lane.waiting.pop(0) for lane in lanes.values() if lane.waiting), None)
            assert queue.pop() is expected
        else:
            expected = next((one for lane in lanes.values() if (one := lane.pop_qos0())), None)
            assert queue.pop_qos0() is expected
        assert queue.count == sum(len(lane.waiting) for lane in lanes.values())
