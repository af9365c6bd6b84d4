"""What a tail holds for a looker-on who does not read."""

from heliograph.broker.message import make_message
from heliograph.events.message_tails import MessageTail

_MIB = 1 << 20


def test_messages_that_wait_are_bounded_by_what_they_hold() -> None:
    tail = MessageTail("a", 100, 10)
    for number in range(100):
        tail.offer(make_message(number, number, "a", bytes(_MIB), 0, False, b"", "c", None), 0)
    taken = tail.take(100)
    assert {len(one.payload) for one in taken} == {10}
    assert 0 < sum(len(one.message.payload) for one in taken) <= 4 * _MIB
    assert tail.take_left_out() == 100 - len(taken)
