"""Bans are listed, shown, made and lifted by those who ask a node; one of a client id ends its session."""

import pytest

from heliograph.access.bans.ban_list import BanList
from heliograph.broker.hook_order import ACCESS
from heliograph.control import bans
from heliograph.control.proto_v1.bans import BanName, BanRow, BansWanted, NewBan
from heliograph.rpc.methods import RpcError
from support.asking import CALL, Asker
from support.kernel import Kernel


class World:
    """A kernel with a ban list."""

    def __init__(self, entries_max: int = 100) -> None:
        self.kernel = Kernel()
        self.bans = BanList(lambda: self.kernel.now_us // 1_000_000, entries_max)
        self.kernel.broker.hooks.client_connect.add(self.bans.on_client_connect, ACCESS)
        self.asked = Asker(bans.methods(self.bans, self.kernel.context), self.kernel.run)

    def listed(self, kind: str = "", limit: int = 0) -> list[str]:
        return sorted(row.who for row in self.asked.rows("banned.list", BansWanted(kind, limit)))


def test_a_client_that_is_banned_by_its_id_is_kicked_and_kept_out() -> None:
    world = World()
    peer = world.kernel.connect("c", session_expiry_interval=600)
    answer = world.asked.ask("banned.add", NewBan("clientid", "c", "floods", for_s=60))
    world.kernel.run()
    now_s = world.kernel.now_us // 1_000_000
    assert answer.was_kicked
    assert answer.ban == BanRow("clientid", "c", "floods", CALL.who, now_s, now_s + 60)
    assert peer.heard() == ["DISCONNECT 0x98"]
    assert not world.kernel.sessions.knows("c")
    refused = world.kernel.peer(5)
    refused.connect("c")
    assert refused.heard() == ["CONNACK 0x8a"]
    assert world.asked.ask("banned.show", BanName("clientid", "c")) == answer.ban
    world.kernel.advance(61)
    assert world.listed() == []
    world.kernel.connect("c")


def test_a_ban_takes_the_place_of_another_only_if_that_is_wanted() -> None:
    world = World(entries_max=1)
    world.asked.ask("banned.add", NewBan("username", "u", "floods"))
    with pytest.raises(RpcError, match="username 'u' is banned already"):
        world.asked.ask("banned.add", NewBan("username", "u", "again"))
    answer = world.asked.ask("banned.add", NewBan("username", "u", "again", replaces=True))
    assert (answer.ban.reason, world.listed()) == ("again", ["u"])
    with pytest.raises(RpcError, match="has ended already"):
        world.asked.ask("banned.add", NewBan("username", "u", until=1, replaces=True))
    assert world.asked.ask("banned.show", BanName("username", "u")) == answer.ban


def test_every_kind_is_listed_and_lifted_by_its_name() -> None:
    world = World()
    names = {
        "clientid": "c",
        "username": "u",
        "peerhost": "198.51.100.7",
        "clientid_re": "^bot-",
        "username_re": "x+",
        "peerhost_net": "203.0.113.0/24",
    }
    for kind, who in names.items():
        assert not world.asked.ask("banned.add", NewBan(kind, who, by="ops", until=2_000_000_000)).was_kicked
    assert world.listed() == sorted(names.values())
    assert world.listed("peerhost_net") == ["203.0.113.0/24"]
    assert len(world.listed(limit=2)) == 2
    assert world.asked.ask("banned.delete", BanName("peerhost_net", "203.0.113.9/24")).who == "203.0.113.0/24"
    assert world.asked.ask("banned.clear", BansWanted("peerhost")).count == 1
    assert world.asked.ask("banned.clear", BansWanted(by="nobody")).count == 0
    assert world.asked.ask("banned.clear", BansWanted(by="ops")).count == 4
    assert (world.listed(), len(world.bans)) == ([], 0)


def test_what_cannot_be_banned_is_refused_with_what_is_valid() -> None:
    world = World(entries_max=1)
    with pytest.raises(RpcError, match="'host' is no kind of ban; clientid, username, peerhost,"):
        world.asked.ask("banned.add", NewBan("host", "x"))
    with pytest.raises(RpcError, match="'x' is no address"):
        world.asked.ask("banned.add", NewBan("peerhost", "x"))
    with pytest.raises(RpcError, match="has ended already"):
        world.asked.ask("banned.add", NewBan("clientid", "x", until=1))
    with pytest.raises(RpcError, match="clientid 'x' is not banned"):
        world.asked.ask("banned.delete", BanName("clientid", "x"))
    with pytest.raises(RpcError, match="'host' is no kind of ban"):
        world.listed("host")
    world.asked.ask("banned.add", NewBan("clientid", "x"))
    with pytest.raises(RpcError, match="clientid 'x' is banned already"):
        world.asked.ask("banned.add", NewBan("clientid", "x"))
    with pytest.raises(RpcError, match="there is no room for another ban; 1 are held"):
        world.asked.ask("banned.add", NewBan("clientid", "y"))


def test_a_list_of_bans_goes_on_while_others_are_made_and_lifted() -> None:
    world = World(entries_max=1000)
    for number in range(200):
        world.asked.ask("banned.add", NewBan("clientid", f"c{number}"))
    walk = world.bans.walk()
    told = [next(walk).who for _ in range(50)]
    left = [f"c{number}" for number in range(200) if f"c{number}" not in told]
    for who in (*told[:10], *left[:30]):
        world.asked.ask("banned.delete", BanName("clientid", who))
    world.asked.ask("banned.add", NewBan("clientid", "new"))
    told += [ban.who for ban in walk]
    assert len(set(told)) == len(told)
    assert set(told) == {f"c{number}" for number in range(200)} - set(left[:30])
