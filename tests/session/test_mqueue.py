"""The message queue against a list that follows the rule word for word."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from heliograph.broker.message import NEVER, Message
from heliograph.broker.subscription import Subscriber, Subscription
from heliograph.session.mqueue import DELIVERY_BYTES, Delivery, MessageQueue, make_queue, size_of
from support.cases import cases
from support.options import SESSION
from support.packets import publish
from support.reach import count

SUBSCRIPTION = Subscription(Subscriber("sub"), "#", 2, False, False, 0, 0)


def delivery(qos: int, topic: str = "t", payload: bytes = b"") -> Delivery:
    return Delivery(Message(1, 1, topic, publish(topic, payload), "pub", None, NEVER), qos, False, SUBSCRIPTION)


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


@cases("store_qos0", [True, False])
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
    assert count(queue, Delivery) < 100


def test_taking_qos_0_out_of_turn_leaves_nothing_behind() -> None:
    queue = MessageQueue(0, True)
    for qos in [1] * 10 + [0] * 1000:
        queue.push(delivery(qos))
    while queue.pop_qos0() is not None:
        pass
    assert queue.count == 10
    assert count(queue, Delivery) < 100


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
    options = replace(SESSION, max_mqueue_len=len_max, mqueue_priorities=PRIORITIES, mqueue_default_priority=1)
    queue = make_queue(options)
    lanes = {priority: NaiveQueue(len_max, True) for priority in (3, 2, 1)}
    for step in steps:
        if isinstance(step, tuple):
            topic, qos = step
            new, lane = delivery(qos, topic), lanes[PRIORITIES.get(topic, 1)]
            assert queue.is_full(new.message) is (0 < len_max == len(lane.waiting))
            assert queue.push(new) is lane.push(new)
        elif step == "pop":
            expected = next((lane.waiting.pop(0) for lane in lanes.values() if lane.waiting), None)
            assert queue.pop() is expected
        else:
            expected = next((one for lane in lanes.values() if (one := lane.pop_qos0())), None)
            assert queue.pop_qos0() is expected
        assert queue.count == sum(len(lane.waiting) for lane in lanes.values())


def shed_all(queue: MessageQueue, new: Delivery) -> list[Delivery]:
    dropped, gone = queue.push(new), []
    while dropped is not None:
        gone.append(dropped)
        dropped = queue.shed()
    return gone


class NaiveBytes:
    """Beyond so many bytes, drop QoS 0 messages first, oldest first; then the oldest; one message may always wait."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.waiting: list[Delivery] = []

    def push(self, new: Delivery) -> list[Delivery]:
        self.waiting.append(new)
        gone = []
        while self.size_bytes() > self.bytes_max and len(self.waiting) > 1:
            victim = next((one for one in self.waiting if one.qos == 0), self.waiting[0])
            self.waiting.remove(victim)
            gone.append(victim)
        return gone

    def size_bytes(self) -> int:
        return sum(int(size_of(one.message)) for one in self.waiting)


@given(steps=st.lists(st.just(-1) | st.tuples(st.integers(0, 2), st.integers(0, 5000)), min_size=20, max_size=120))
def test_the_limit_of_bytes_follows_the_drop_policy(steps: list[int | tuple[int, int]]) -> None:
    queue, naive = MessageQueue(0, True, 4 * DELIVERY_BYTES), NaiveBytes(4 * DELIVERY_BYTES)
    for step in steps:
        if isinstance(step, tuple):
            new = delivery(step[0], payload=bytes(step[1]))
            assert shed_all(queue, new) == naive.push(new)
        else:
            assert queue.pop() is (naive.waiting.pop(0) if naive.waiting else None)
        assert (queue.count, queue.size_bytes) == (len(naive.waiting), naive.size_bytes())


def test_the_lowest_priority_loses_first_where_the_bytes_are_too_many() -> None:
    options = replace(SESSION, max_mqueue_len=0, mqueue_priorities=PRIORITIES, max_mqueue_bytes=4 * DELIVERY_BYTES)
    queue = make_queue(options)
    low, high = [delivery(1, "d"), delivery(1, "d")], [delivery(1, "a"), delivery(1, "a")]
    for one in low[:1] + high[:1] + low[1:]:
        assert shed_all(queue, one) == []
    assert shed_all(queue, high[1]) == low[:1]
    assert [queue.pop(), queue.pop(), queue.pop(), queue.pop()] == [*high, low[1], None]
    assert queue.size_bytes == 0


def test_a_message_larger_than_the_limit_of_bytes_waits_alone() -> None:
    queue = MessageQueue(0, True, 1024)
    small, large = delivery(1), delivery(1, payload=bytes(5000))
    assert shed_all(queue, small) == []
    assert queue.is_full(large.message)
    assert shed_all(queue, large) == [small]
    assert queue.pop() is large
