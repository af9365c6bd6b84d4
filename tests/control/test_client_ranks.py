"""Clients by what they have most of: page after page, while what they have changes, and those that are behind."""

from pathlib import Path

import msgspec
import pytest

from heliograph.control import client_ranks
from heliograph.control.proto_v1.clients import RankedClient, TopClients
from heliograph.events.disconnects import DisconnectHistory
from heliograph.rpc.methods import SLICE, RpcError
from support.asking import Asker
from support.cases import cases
from support.durable import DurableKernel, got, leave
from support.kernel import Kernel


def asker_of(kernel: Kernel) -> Asker:
    return Asker(client_ranks.methods(kernel.context, DisconnectHistory(10, lambda: kernel.now_us)), kernel.run)


def decoded(row: object) -> RankedClient:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(row), type=RankedClient)


def rows_of(asker: Asker, wanted: TopClients) -> list[RankedClient]:
    slices = list(asker.slices("clients.top", wanted))
    assert all(len(rows) <= SLICE for rows in slices)
    return [decoded(row) for rows in slices for row in rows]


def ids(rows: list[RankedClient]) -> list[str]:
    return [row.client.clientid for row in rows if row.client is not None]


def behind(asker: Asker) -> list[str]:
    return ids(rows_of(asker, TopClients("behind")))


def test_pages_of_a_sorted_list_have_every_client_once_the_newest_of_equals_first() -> None:
    kernel = Kernel()
    counts = {f"c{number}": number % 4 for number in range(130)}
    for clientid, count in counts.items():
        peer = kernel.connect(clientid)
        for number in range(count):
            peer.subscribe(f"t/{number}")
    expected = sorted((name for name in counts if counts[name]), key=lambda name: (-counts[name], -int(name[1:])))
    asker = asker_of(kernel)
    assert ids(rows_of(asker, TopClients("subscriptions", limit=1000))) == expected
    told: list[str] = []
    below_count = below_at = 0
    while page := rows_of(asker, TopClients("subscriptions", limit=7, below_count=below_count, below_at=below_at)):
        told += ids(page)
        below_count, below_at = page[-1].count, page[-1].at
        late = kernel.connect(f"late-{len(told)}")
        for number in range(3):  # as much as any: it is above what is yet to come
            late.subscribe(f"t/{number}")
    assert told == expected


def test_a_list_goes_on_behind_clients_that_end_while_it_is_told() -> None:
    kernel = Kernel()
    peers = [kernel.connect(f"c{number}") for number in range(60)]
    for peer in peers:
        peer.subscribe("t")
    asker = asker_of(kernel)
    slices = asker.slices("clients.top", TopClients("subscriptions", limit=55))
    first = next(rows for rows in slices if rows)
    assert len(first) == SLICE
    for peer in peers[5:10]:  # the next ones
        peer.drop()
    kernel.run()
    last = [decoded(row) for rows in slices for row in rows]
    assert [row.client for row in last] == [None] * 5
    rest = rows_of(asker, TopClients("subscriptions", below_count=last[-1].count, below_at=last[-1].at))
    assert ids(rest) == ["c4", "c3", "c2", "c1", "c0"]


def test_durable_sessions_that_may_have_messages_in_storage_are_found(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    asker = asker_of(kernel)
    leave(kernel, "early", "t", expiry_s=6000)
    assert behind(asker) == []
    kernel.advance(10)
    kernel.come("pub", expiry_s=0).publish("other", b"x", 1, 1)
    kernel.run()
    leave(kernel, "late", "t", expiry_s=6000)
    assert behind(asker) == ["early"]
    kernel.advance(10)
    kernel.come("pub", expiry_s=0).publish("t", b"y", 1, 1)
    kernel.run()
    rows = rows_of(asker, TopClients("behind"))
    assert ids(rows) == ["early", "late"]
    since = [row.client.behind_since for row in rows if row.client is not None]
    assert since == sorted(since, key=lambda at_us: at_us or 0)
    assert ids(rows_of(asker, TopClients("behind", below_count=rows[0].count, below_at=rows[0].at))) == ["late"]
    assert ids(rows_of(asker, TopClients("backlog"))) == []
    assert got(kernel, "early") == ["y"]
    assert behind(asker) == ["late"]
    asleep = rows_of(asker_of(kernel.crash()), TopClients("behind"))
    assert ("late", True) in [(row.client.clientid, row.client.life.asleep) for row in asleep if row.client is not None]


@cases(
    "wanted",
    [
        TopClients("color"),
        TopClients("drops", limit=0),
        TopClients("drops", limit=1002),
        TopClients("drops", below_count=3),
        TopClients("drops", below_count=3, below_at=7),
    ],
)
def test_what_no_list_can_begin_with_is_refused(wanted: TopClients) -> None:
    with pytest.raises(RpcError):
        rows_of(asker_of(Kernel()), wanted)
