"""Bans that are made while a node runs outlast its restart, and hold for wills."""

import time
from pathlib import Path

import pytest

from heliograph.access.bans.ban_table import Ban
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.node.access_records import StoredBansPart
from heliograph.node.kernel import KernelPart
from heliograph.storage.errors import StorageFullError
from support.packets import properties
from support.running import RunningNode

SETTINGS = """
listeners.tcp.default.bind = "127.0.0.1:0"
durable_storage { messages.topics = [], flight.enable = false }
"""


async def code_for(node: RunningNode, clientid: str, **named: str) -> int:
    client = await node.open()
    client.send_connect(clientid, username=named.get("username"))
    return (await client.take(p.Connack)).code


async def test_bans_and_what_became_of_them_outlast_a_restart(tmp_path: Path) -> None:
    soon = int(time.time()) + 600
    async with RunningNode(tmp_path, SETTINGS) as node:
        assert not (tmp_path / "data/state/bans").exists()  # a node without bans pays nothing
        kept = Ban("username", "Jörg\u0001", "why", "ops", 7, soon)
        for ban in (kept, Ban("clientid_re", "^bot-"), Ban("peerhost_net", "192.0.2.9/24"), Ban("clientid", "lifted")):
            assert node.bans.add(ban)
        assert await node.bans.saved() is None
        assert node.bans.remove("clientid", "lifted")
    async with RunningNode(tmp_path, SETTINGS) as node:
        assert sorted(ban.kind for ban in node.bans) == ["clientid_re", "peerhost_net", "username"]
        assert node.bans.find("username", "Jörg\u0001") == kept
        assert await code_for(node, "bot-1") == rc.BANNED
        assert await code_for(node, "lifted") == rc.SUCCESS
        assert not node.bans.add(Ban("peerhost_net", "192.0.2.0/24"))  # it is banned already
        for ban in list(node.bans):
            node.bans.remove(ban.kind, ban.who)
        assert await node.bans.saved() is None
    async with RunningNode(tmp_path, SETTINGS) as node:
        assert len(node.bans) == 0


async def test_a_ban_whose_time_is_over_does_not_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = int(time.time())
    async with RunningNode(tmp_path, SETTINGS) as node:
        assert node.bans.add(Ban("clientid", "c", until_s=now + 60))
    later = time.time() + 61
    monkeypatch.setattr(time, "time", lambda: later)
    async with RunningNode(tmp_path, SETTINGS) as node:
        assert len(node.bans) == 0
        assert await code_for(node, "c") == rc.SUCCESS


async def test_nobody_is_let_in_while_it_cannot_be_known_who_is_banned(tmp_path: Path) -> None:
    async with RunningNode(tmp_path, SETTINGS) as node:
        assert node.bans.add(Ban("clientid", "c"))
    database = tmp_path / "data/state/bans"
    (tmp_path / "away").mkdir()
    for file in database.iterdir():
        file.rename(tmp_path / "away" / file.name)
    async with RunningNode(tmp_path, SETTINGS) as node:
        assert await code_for(node, "other") == rc.SERVER_UNAVAILABLE
        stored = node.node.parts.get(StoredBansPart)
        assert "its directory is gone or empty now (database 'bans'" in stored.health()
        alarms = [alarm.name for alarm in node.node.parts.get(KernelPart).alarms.active()]
        assert alarms == ["bans_not_stored"]


async def test_a_ban_that_the_disk_refuses_holds_and_is_stored_when_it_can_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise StorageFullError("the disk is full", database="bans")

    async with RunningNode(tmp_path, SETTINGS) as node:
        part = node.node.parts.get(StoredBansPart)
        with monkeypatch.context() as patched:
            patched.setattr("heliograph.storage.state.local.LocalState.submit", full)
            assert node.bans.add(Ban("clientid", "c"))
            assert isinstance(await node.bans.saved(), StorageFullError)
            assert await code_for(node, "c") == rc.BANNED
            assert "the disk is full" in part.health()
        part.tick(0)
        assert await node.bans.saved() is None
        assert part.health() == ""
    async with RunningNode(tmp_path, SETTINGS) as node:
        assert node.bans.is_banned("c")


@pytest.mark.parametrize(
    ("kind", "who"), [("clientid", "bad"), ("username", "joe"), ("peerhost", "127.0.0.1"), ("clientid_re", "^b")]
)
async def test_the_will_of_a_banned_client_is_not_published(tmp_path: Path, kind: str, who: str) -> None:
    async with RunningNode(tmp_path, SETTINGS) as node:
        watcher = await node.connect("watcher")
        await watcher.subscribe("will/#")
        bad = await node.connect("bad", username="joe", will=p.Will("will/bad", b"x", 0, False, properties()))
        node.bans.add(Ban(kind, who))
        bad.close()
        await bad.until_closed()
        if kind != "peerhost":
            other = await node.connect("other", will=p.Will("will/other", b"y", 0, False, properties()))
            other.close()
            assert (await watcher.take(p.Publish)).topic == b"will/other"
        assert await watcher.payloads() == []
