"""What an open QoS 2 identifier costs, and how long it is kept."""

import tracemalloc
from dataclasses import replace

from heliograph.session.awaiting_rel import AwaitingRel
from support.cases import cases
from support.options import SESSION

COUNT = 1000


@cases(("per_commit", "bytes_max"), [(1, 105), (50, 75)])
def test_an_open_identifier_costs_about_a_hundred_bytes(per_commit: int, bytes_max: int) -> None:
    awaiting = AwaitingRel(replace(SESSION, max_awaiting_rel=0))
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(COUNT):
        awaiting.add(300 + number, 1_000_000 + number // per_commit, 3_600_000_000 + number // per_commit * 20_000)
    each = (tracemalloc.get_traced_memory()[0] - before) / COUNT
    tracemalloc.stop()
    assert len(awaiting) == COUNT
    assert each <= bytes_max


def test_each_identifier_has_its_ticket() -> None:
    awaiting = AwaitingRel(replace(SESSION, max_awaiting_rel=0))
    tickets = {1: 0, 2: 5, 3: 5, 4: 2**31, 5: 2**40}
    for packet_id, ticket in tickets.items():
        awaiting.add(packet_id, ticket, 1_000_000)
    assert {packet_id: awaiting.ticket(packet_id) for packet_id in tickets} == tickets
    assert awaiting.ticket(6) == -1
    assert awaiting.release(5)
    assert not awaiting.release(5)


@cases("uptime_us", [0, 1_000_000, 2**44 - 1_000_000, 2**50])
def test_the_oldest_is_given_up_after_its_time_and_not_before(uptime_us: int) -> None:
    awaiting = AwaitingRel(replace(SESSION, max_awaiting_rel=2, await_rel_timeout_us=10_000_000))
    awaiting.add(7, 3, uptime_us)
    awaiting.add(8, 3, uptime_us + 5_000_000)
    assert not awaiting.has_room(uptime_us + 9_900_000)
    assert awaiting.has_room(uptime_us + 10_100_000)
    assert (awaiting.ticket(7), awaiting.ticket(8)) == (-1, 3)
