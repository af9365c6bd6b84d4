"""The inflight window by itself: identifiers, places, and what is sent again on the next connection."""

from heliograph.broker.message import make_message
from heliograph.broker.subscription import Subscriber, Subscription
from heliograph.session.mqueue import Delivery
from heliograph.session.window import Window


def delivery() -> Delivery:
    message = make_message(1, 1, "t", b"x", 1, False, b"", "pub", None)
    return Delivery(message, 1, False, Subscription(Subscriber("sub"), "t", 1, False, False, 0, 0))


def window_of(size: int, count: int) -> Window:
    window = Window(size)
    for _ in range(count):
        window.add(window.next_id(), delivery())
    return window


def test_it_has_room_for_as_many_as_its_size() -> None:
    window = window_of(2, 1)
    assert window.has_room()
    window.add(window.next_id(), delivery())
    assert not window.has_room()
    window.remove(1)
    assert window.has_room()


def test_identifiers_begin_anew_and_pass_over_those_in_flight() -> None:
    window = window_of(3, 1)
    window.last_id = 65_534
    assert [window.next_id(), window.next_id()] == [65_535, 2]


def test_a_new_connection_repeats_what_is_in_flight_oldest_first() -> None:
    window = window_of(3, 3)
    window.begin(3)
    assert window.has_room()  # nothing was sent on this connection
    assert [window.next_repeat(), window.next_repeat()] == [1, 2]
    assert window.has_repeats()
    assert [window.next_repeat(), window.next_repeat()] == [3, 0]
    assert not window.has_repeats()


def test_what_is_acknowledged_before_it_is_repeated_had_no_place_on_the_connection() -> None:
    window = window_of(2, 2)
    window.begin(2)
    window.remove(window.next_repeat())
    window.remove(2)
    assert not window.has_repeats()
    assert (int(window.sent_count), len(window.deliveries)) == (0, 0)


def test_what_was_to_be_repeated_is_so_on_the_connection_after() -> None:
    window = window_of(2, 2)
    window.begin(2)
    window.end()
    assert not window.has_repeats()
    window.begin(2)
    assert window.next_repeat() == 1
