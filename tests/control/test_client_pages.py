"""Pages of clients: filters, deep pages, cursors that stay valid while clients come and go."""

import random
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from heliograph.access.bans.ban_list import BanList
from heliograph.control import clients
from heliograph.control.proto_v1.clients import ClientId, ClientRow, ClientsFilter, ClientsPage
from heliograph.control.refusals import ClientTroubles
from heliograph.mqtt import packets as p
from heliograph.rpc.methods import SLICE, RpcError
from support.asking import Asker
from support.durable import DurableKernel, leave
from support.kernel import Kernel
from support.options import SESSION


def asker_of(kernel: Kernel) -> Asker:
    return Asker(clients.methods(kernel.context, ClientTroubles(BanList(lambda: 0), kernel.context)), kernel.run)


def rows_of(asker: Asker, page: ClientsPage) -> list[ClientRow]:
    slices = list(asker.slices("clients.list", page))
    assert all(len(rows) <= SLICE for rows in slices)
    encoded = [msgspec.msgpack.encode(row) for rows in slices for row in rows]
    return [msgspec.msgpack.decode(row, type=ClientRow) for row in encoded]


def listed(asker: Asker, **named: object) -> list[str]:
    wanted = msgspec.convert(named, ClientsFilter)
    found = sorted(row.clientid for row in rows_of(asker, ClientsPage(wanted)))
    assert [row.count for row in asker.rows("clients.count", wanted)] == [len(found)]
    return found


def test_every_column_of_a_client_says_what_it_did() -> None:
    kernel = Kernel(session_options=replace(SESSION, max_mqueue_len=2))
    peer = kernel.connect("c", username="u", keepalive_s=30, session_expiry_interval=60)
    peer.subscribe("t", 1)
    for qos in (0, 1, 1):
        peer.publish("t", b"x", qos)
    (row,) = rows_of(asker_of(kernel), ClientsPage())
    assert (row.clientid, row.life.expiry_interval, row.life.disconnected_at, row.life.durable) == (
        "c",
        60,
        None,
        False,
    )
    assert (row.connection.username, row.connection.ip_address, row.connection.port, row.connection.listener) == (
        "u",
        "192.0.2.1",
        50000,
        "tcp:default",
    )
    assert (
        row.connection.proto_ver,
        row.connection.keepalive,
        row.connection.clean_start,
        row.connection.enable_authn,
    ) == (5, 30, True, True)
    assert (row.traffic.recv_pkt, row.traffic.recv_qos0, row.traffic.recv_qos1, row.traffic.recv_qos2) == (5, 1, 2, 0)
    assert (row.traffic.send_pkt, row.traffic.send_qos0, row.traffic.send_qos1) == (1 + 1 + 2 + 3, 1, 2)
    assert (
        min(row.traffic.recv_oct or 0, row.traffic.send_oct or 0, row.traffic.recv_cnt or 0, row.traffic.send_cnt or 0)
        > 0
    )
    assert (row.held.subscriptions_cnt, row.held.inflight_cnt, row.held.mqueue_max, row.held.awaiting_rel_max) == (
        1,
        2,
        2,
        1000,
    )
    assert row.life.created_at == row.connection.connected_at
    (columns,) = next(asker_of(kernel).slices("clients.list", ClientsPage()))
    groups = [row.life, row.held, row.connection, row.traffic]
    assert [len(columns[at]) for at in (3, 4, 6, 7)] == [len(group.__struct_fields__) for group in groups]
    assert asker_of(kernel).ask("clients.row", ClientId("c")).clientid == "c"


def test_filters_leave_out_the_others() -> None:
    kernel = Kernel(session_options=replace(SESSION, max_mqueue_len=2))
    for clientid, username in (("sensor-1", "ann"), ("sensor-2", "bob")):
        kernel.connect(clientid, username=username, session_expiry_interval=600)
    kernel.advance(100)
    later = int(kernel.now_us)
    kernel.connect("pump", version=p.V3_1_1, clean_start=False)
    away = kernel.connect("away", session_expiry_interval=600)
    away.subscribe("t", 1)
    away.drop()
    pub = kernel.connect("pub")
    for _ in range(3):
        pub.publish("t", b"x", 1)
    asker = asker_of(kernel)
    everyone = ["away", "pub", "pump", "sensor-1", "sensor-2"]
    assert listed(asker) == everyone
    assert listed(asker, clientids=["pump", "away", "pump", "nobody"]) == ["away", "pump"]
    assert listed(asker, clientids=["pump", "away"], connected=True) == ["pump"]
    assert listed(asker, usernames=["ann", "bob"]) == ["sensor-1", "sensor-2"]
    assert listed(asker, clientid_like="sensor", username_like="o") == ["sensor-2"]
    assert listed(asker, connected=False) == ["away"]
    assert listed(asker, proto_ver=4) == listed(asker, clean_start=False) == ["pump"]
    assert listed(asker, ip="192.0.2.1", listener="tcp:default", zone="default") == everyone[1:]
    assert listed(asker, created_from=later) == ["away", "pub", "pump"]
    assert listed(asker, created_until=later - 1) == ["sensor-1", "sensor-2"]
    assert listed(asker, connected_until=later - 1) == ["sensor-1", "sensor-2"]
    assert listed(asker, min_dropped=1) == listed(asker, min_queue=2) == ["away"]
    assert listed(asker, ip="192.0.2.9") == []
    with pytest.raises(RpcError, match="no IP address"):
        listed(asker, ip="here")


def test_pages_go_on_where_the_last_ended_while_clients_come_and_go() -> None:
    kernel = Kernel()
    chance = random.Random(7)
    stays = {f"stays-{number}" for number in range(150)}
    leaving = []
    for number in range(150):
        kernel.connect(f"stays-{number}")
        leaving.append(kernel.connect(f"goes-{number}"))
    asker = asker_of(kernel)
    told: list[str] = []
    before = 0
    while page := rows_of(asker, ClientsPage(before=before, limit=20)):
        told += [row.clientid for row in page]
        before = page[-1].at
        for _ in range(5):
            leaving.pop(chance.randrange(len(leaving))).drop()
        kernel.connect(f"comes-{len(told)}")
        kernel.run()
    assert len(told) == len(set(told))
    assert stays <= set(told)
    with pytest.raises(RpcError, match="not the place of a client"):
        rows_of(asker, ClientsPage(before=before - 10_000_000))


def test_a_deep_page_is_what_follows_the_earlier_ones() -> None:
    kernel = Kernel()
    for number in range(130):
        kernel.connect(f"c{number}", username="even" if number % 2 == 0 else "odd")
    asker = asker_of(kernel)
    pages = [rows_of(asker, ClientsPage(skip=at, limit=50)) for at in (0, 50, 100, 150)]
    assert [row.clientid for page in pages for row in page] == [f"c{number}" for number in reversed(range(130))]
    odd = rows_of(asker, ClientsPage(ClientsFilter(usernames=["odd"]), skip=60, limit=50))
    assert [row.clientid for row in odd] == ["c9", "c7", "c5", "c3", "c1"]


def test_a_session_on_the_disk_only_is_listed_with_what_is_known_and_read_when_it_is_asked_for(
    tmp_path: Path,
) -> None:
    kernel = DurableKernel(tmp_path)
    leave(kernel, "sleeper", "t", "u", expiry_s=6000)
    kernel = kernel.crash()
    asker = asker_of(kernel)
    (row,) = rows_of(asker, ClientsPage())
    assert (row.life.asleep, row.life.durable, row.held.mqueue_len, row.connection.connected_at) == (
        True,
        True,
        None,
        None,
    )
    assert listed(asker, connected=False, clientid_like="sleep") == ["sleeper"]
    assert listed(asker, usernames=["x"]) == []
    assert asker.ask("clients.row", ClientId("sleeper")).held.subscriptions_cnt == 2
