"""Backups of a running node as its operator makes, verifies and restores them."""

import asyncio
import json
import os
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from heliograph.cli.main import main
from heliograph.mqtt import packets as p
from heliograph.node.backups import BackupsPart
from heliograph.node.kernel import KernelPart
from heliograph.processes.programs import PROGRAMS, Programs
from heliograph.storage.backup.capture import WORK
from heliograph.storage.backup.errors import BackupFailedError
from support.asked_node import AskedNode
from support.packets import properties_of
from support.running import MqttClient
from support.s3 import BUCKET, s3_server
from support.small_disk import small_disk

BASE = """
listeners.tcp.default.bind = "127.0.0.1:0"
durable_storage.flight.enable = false
sys_topics.sys_msg_interval = disabled
"""


class BackedUp(AskedNode):
    """A node in this process, and commands about its backups."""

    def __init__(self, directory: Path, capsys: pytest.CaptureFixture[str], settings: str = "") -> None:
        super().__init__(directory, settings, BASE)
        self._capsys = capsys

    async def run(self, *words: str) -> tuple[int, str, str]:
        """The exit code, output and errors of `heliograph WORDS`."""
        code = await asyncio.to_thread(main, list(words))
        printed = self._capsys.readouterr()
        return code, printed.out, printed.err

    async def back_up(self, place: Path | str, *words: str) -> dict[str, Any]:
        """Make a backup, as its operator does."""
        code, out, err = await self.run(
            "ctl", "data", "backup", str(place), *words, "--json", "--data-dir", str(self.data_dir)
        )
        assert (code, err) == (0, "")
        found: dict[str, Any] = json.loads(out)
        return found

    async def json(self, *words: str, code: int = 0) -> list[dict[str, Any]]:
        """What `heliograph backup WORDS` says."""
        ended, out, err = await self.run("backup", *words, "--json")
        assert (ended, err) == (code, "")
        return [json.loads(line) for line in out.splitlines()]

    async def manager_sets(self, text: str) -> None:
        """Change the file of the node, and have it read again."""
        self.file.write_text(text)
        assert await self.node.read_again()

    def alarms(self) -> list[str]:
        """The names of those that go on."""
        return [one.name for one in self.node.parts.get(KernelPart).alarms.active()]


@pytest.fixture
async def node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> AsyncIterator[BackedUp]:
    node = await BackedUp(tmp_path / "here", capsys).start()
    yield node
    await node.stop()


SESSION: dict[str, Any] = {"clean_start": False, "session_expiry_interval": 3600}


async def subscribe_and_leave(node: BackedUp, topic_filter: str = "t/#") -> None:
    """Have a durable session of the client `away`."""
    client = MqttClient(*await asyncio.open_connection("127.0.0.1", await node.port()), p.V5)
    client.send_connect("away", **SESSION)
    await client.take(p.Connack)
    await client.subscribe(topic_filter, 1)
    await client.leave()


async def queued(node: BackedUp, last: bytes) -> list[bytes]:
    """What waited for the client `away`, up to a message."""
    client = MqttClient(*await asyncio.open_connection("127.0.0.1", await node.port()), p.V5)
    client.send_connect("away", **SESSION)
    assert (await client.take(p.Connack)).session_present
    found: list[bytes] = []
    while not found or found[-1] != last:
        packet = await client.take(p.Publish)
        client.acknowledge(packet)
        found.append(packet.payload)
    await client.leave()
    return found


async def restored(node: BackedUp, place: Path | str, capsys: pytest.CaptureFixture[str]) -> BackedUp:
    """Another node, that runs on what the newest backup holds."""
    other = BackedUp(node.data_dir.parent.parent / "there", capsys)
    code, out, err = await node.run("backup", "restore", str(place), "--data-dir", str(other.data_dir))
    assert (code, err) == (0, ""), err
    assert "is the node heliograph@127.0.0.1 as it was at" in out
    return await other.start()


def largest(place: Path) -> Path:
    """The largest file of the content of a place."""
    return max((one for one in (place / "content").rglob("*") if one.is_file()), key=lambda one: one.stat().st_size)


def content(place: Path) -> set[Path]:
    """All files of the content of a place."""
    return {one for one in (place / "content").rglob("*") if one.is_file()}


async def test_a_backup_under_load_holds_all_that_was_acknowledged_before_it(
    node: BackedUp, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "place"
    await subscribe_and_leave(node)
    publisher = await node.connect("publisher")
    numbers, acknowledged = iter(range(1_000_000)), 0

    async def publish_on() -> None:
        nonlocal acknowledged
        for number in numbers:
            assert await publisher.publish("t/1", b"%d" % number, 1) == 0
            acknowledged = number + 1

    await publisher.publish("kept/1", b"warm", 1, retain=True)
    load = asyncio.create_task(publish_on())
    while acknowledged < 200:
        await publisher.ping()
    before = acknowledged
    made = await node.back_up(place)
    load.cancel()
    await asyncio.gather(load, return_exceptions=True)
    publisher.close()

    assert made["copied_files"] > 0
    assert acknowledged > before
    assert [one["problems"] for one in await node.json("verify", str(place))] == [[]]
    other = await restored(node, place, capsys)
    try:
        late = await other.connect("late")
        assert await late.publish("t/1", b"last", 1) == 0
        got = await queued(other, b"last")
        assert got[:-1] == [b"%d" % number for number in range(len(got) - 1)]
        assert len(got) - 1 >= before
        await late.subscribe("kept/#")
        assert (await late.take(p.Publish)).payload == b"warm"
        late.close()
    finally:
        await other.stop()


MORE: dict[str, Any] = {"user_property": [("a", "1")], "content_type": "text/plain", "correlation_data": b"\0"}


async def shown(node: BackedUp) -> dict[str, list[Any]]:
    """What clients and operators get of a node, message by message; its sessions take what waits for them."""
    late = await node.connect("late")
    for topic in ("t/1", "g/1"):
        assert await late.publish(topic, b"last", 1) == 0
    await late.subscribe("kept/#", 1)
    retained = [await late.take(p.Publish) for _ in range(3)]
    late.close()
    found = {"retained": sorted(retained, key=lambda packet: packet.topic)}
    for clientid, count in (("away", 21), ("member", 14)):
        client = MqttClient(*await asyncio.open_connection("127.0.0.1", await node.port()), p.V5)
        client.send_connect(clientid, **SESSION)
        assert (await client.take(p.Connack)).session_present
        found[clientid] = []
        while len(found[clientid]) < count:
            packet = await client.take(p.Publish)
            client.acknowledge(packet)
            found[clientid].append(packet)
        await client.leave()
    found["member"].sort(key=lambda packet: packet.payload)  # what another publisher sent may overtake in a group
    rows = [await node.ask("delayed.show", {"id": row.id}) for row in await node.ask("delayed.list")]
    return {"delayed": sorted(rows, key=lambda one: str(one.row.topic))} | {
        name: [(one.topic, one.payload, one.qos, one.retain, one.dup, properties_of(one)) for one in packets]
        for name, packets in found.items()
    }


async def test_a_restored_node_goes_on_where_the_first_one_was(
    node: BackedUp, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Sessions with what is in flight, a shared group in the middle, retained and delayed messages."""
    await subscribe_and_leave(node)
    member = MqttClient(*await asyncio.open_connection("127.0.0.1", await node.port()), p.V5)
    member.send_connect("member", **SESSION, receive_maximum=2)
    await member.take(p.Connack)
    await member.subscribe("$share/group/g/#", 1)
    publisher = await node.connect("publisher")
    for number in range(20):
        await publisher.publish("g/1", b"g%d" % number, 1, **MORE)
        await publisher.publish("t/1", b"t%d" % number, 1, **MORE)
    for number in range(3):
        await publisher.publish(f"kept/{number}", b"k%d" % number, 1, retain=True, **MORE)
        await publisher.publish(f"$delayed/{5000 + number}/d/{number}", b"d%d" % number, 1, **MORE)
    publisher.close()
    for _ in range(7):
        member.acknowledge(await member.take(p.Publish))
    await member.take(p.Publish)
    await member.leave()

    await node.back_up(tmp_path / "place")
    expected = await shown(node)
    other = await restored(node, tmp_path / "place", capsys)
    try:
        found = await shown(other)
    finally:
        await other.stop()
    assert [row[1] for row in found["member"]] == sorted([*(b"g%d" % number for number in range(7, 20)), b"last"])
    assert [row[1] for row in found["away"]] == [*(b"t%d" % number for number in range(20)), b"last"]
    assert [row.payload for row in found["delayed"]] == [b"d0", b"d1", b"d2"]
    assert found == expected


async def test_a_full_disk_ends_a_backup_and_a_restore_without_a_trace(node: BackedUp, tmp_path: Path) -> None:
    with small_disk(tmp_path / "small", "1m") as small:
        client = await node.connect("publisher")
        first = await node.back_up(small / "place")
        for _ in range(4):
            await client.publish("t/1", os.urandom(500_000), 1)
        client.close()
        code, _, err = await node.run("ctl", "data", "backup", str(small / "place"), "--data-dir", str(node.data_dir))
        assert (code, "[backup_full]" in err, "No space left on device" in err) == (1, True, True)
        assert node.alarms() == ["backup_failed"]
        assert not list(small.rglob("*.unfinished"))
        assert [(one["id"], one["problems"]) for one in await node.json("verify", str(small / "place"))] == [
            (first["id"], [])
        ]
        await node.back_up(tmp_path / "place")
        assert node.alarms() == []
        target = small / "data"
        code, _, err = await node.run("backup", "restore", str(tmp_path / "place"), "--data-dir", str(target))
        assert (code, "[backup_full]" in err) == (1, True)
        assert [name for name in os.listdir(small) if "data" in name] == []


async def test_the_next_backup_copies_what_is_new_and_the_oldest_goes_with_what_only_it_had(
    node: BackedUp, tmp_path: Path
) -> None:
    place = tmp_path / "place"
    client = await node.connect("publisher")
    await client.publish("t/1", bytes(range(256)) * 400, 1)
    first = await node.back_up(place)
    await client.publish("t/1", b"new", 1)
    second = await node.back_up(place)
    assert second["copied_bytes"] < first["copied_bytes"] / 2
    assert second["copied_files"] < second["files"]
    before = content(place)
    await node.manager_sets(f'backup {{ place = "{place}", keep = 1 }}')
    third = await node.back_up("")
    client.close()
    assert third["removed"] == [first["id"], second["id"]]
    assert [one["id"] for one in await node.json("list", str(place))] == [third["id"]]
    assert before - content(place)
    assert [one["problems"] for one in await node.json("verify", str(place))] == [[]]


async def test_secrets_are_in_a_backup_by_choice_and_what_is_committed_in_sqlite_always(
    tmp_path: Path, node: BackedUp
) -> None:
    (node.data_dir / "flight_token").write_text("a token of this machine")
    (node.data_dir / "tls").mkdir()  # the default of `node.tls_dir`
    (node.data_dir / "tls/key.pem").write_text("a key of this machine")
    (node.data_dir / "management").mkdir(exist_ok=True)
    table = sqlite3.connect(node.data_dir / "management" / "history.sqlite3", isolation_level=None)
    table.execute("CREATE TABLE samples (value)")
    table.execute("INSERT INTO samples VALUES (42)")
    table.execute("BEGIN")
    table.execute("INSERT INTO samples VALUES (43)")  # of a transaction that is not over
    await node.back_up(tmp_path / "without")
    await node.back_up(tmp_path / "with", "--secrets")
    for name, there in (("without", False), ("with", True)):
        target = tmp_path / f"of-{name}"
        code, _, _ = await node.run("backup", "restore", str(tmp_path / name), "--data-dir", str(target))
        assert code == 0
        assert (target / "flight_token").exists() is (target / "tls/key.pem").exists() is there
        assert target.stat().st_mode & 0o077 == 0
        with closing(sqlite3.connect(target / "management" / "history.sqlite3")) as copy:
            assert copy.execute("SELECT value FROM samples").fetchall() == [(42,)]
    table.close()


async def test_a_flipped_bit_is_found_and_is_not_restored(node: BackedUp, tmp_path: Path) -> None:
    place = tmp_path / "place"
    client = await node.connect("publisher")
    await client.publish("t/1", b"x" * 1000, 1)
    client.close()
    made = await node.back_up(place)
    file = largest(place)
    damaged = bytearray(file.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    file.write_bytes(damaged)
    assert [one["problems"] for one in await node.json("list", str(place))] == [[]]
    [verified] = await node.json("verify", str(place), code=1)
    assert verified["id"] == made["id"]
    assert all(f"content/{file.name[:2]}/{file.name} is not what was written" in one for one in verified["problems"])
    code, _, err = await node.run("backup", "restore", str(place), "--data-dir", str(tmp_path / "target"))
    assert code == 1
    assert "[backup_damaged]" in err
    assert [name for name in os.listdir(tmp_path) if "target" in name] == []


async def test_a_directory_that_is_not_empty_is_left_alone(node: BackedUp, tmp_path: Path) -> None:
    await node.back_up(tmp_path / "place")
    code, _, err = await node.run("backup", "restore", str(tmp_path / "place"), "--data-dir", str(node.data_dir))
    assert code == 1
    assert f"{node.data_dir} is not empty" in err
    code, _, err = await node.run("backup", "restore", str(tmp_path), "--data-dir", str(tmp_path / "new"))
    assert code == 1
    assert f"there is no backup in {tmp_path}" in err


def limited(directory: Path, command: str) -> Programs:
    """Processes under a limit of the shell."""
    python = directory / "python"
    python.write_text(f'#!/bin/sh\n{command}\nexec {sys.executable} "$@"\n')
    python.chmod(0o700)
    return Programs(lambda: str(python))


async def test_a_place_without_room_is_an_error_and_an_alarm_and_leaves_the_earlier_backup(
    node: BackedUp, tmp_path: Path
) -> None:
    place = tmp_path / "place"
    client = await node.connect("publisher")
    first = await node.back_up(place)
    await client.publish("t/1", os.urandom(200_000), 1)
    client.close()
    part = node.node.parts.get(BackupsPart)
    part.programs = limited(tmp_path, "ulimit -f 100")
    code, out, err = await node.run("ctl", "data", "backup", str(place), "--data-dir", str(node.data_dir))
    assert (code, out) == (1, "")
    assert "[backup_full]" in err
    assert "cannot be written: File too large" in err
    assert node.alarms() == ["backup_failed"]
    assert [one["id"] for one in await node.json("verify", str(place))] == [first["id"]]
    assert not list(place.rglob("*.unfinished"))
    part.programs = PROGRAMS
    await node.back_up(place)
    assert node.alarms() == []


async def test_a_backup_that_is_killed_leaves_the_earlier_one_whole_and_the_next_one_works(
    node: BackedUp, tmp_path: Path
) -> None:
    place = tmp_path / "place"
    first = await node.back_up(place)
    client = await node.connect("publisher")
    await client.publish("t/1", os.urandom(300_000), 1)
    client.close()
    await node.manager_sets("backup.rate = 300KB")
    making = asyncio.create_task(node.run("ctl", "data", "backup", str(place), "--data-dir", str(node.data_dir)))
    part = node.node.parts.get(BackupsPart)
    while not list(place.rglob("*.unfinished")):
        assert not making.done()
        await asyncio.sleep(0.01)  # a file that appears says nothing
    assert part.pid is not None
    os.kill(part.pid, signal.SIGKILL)
    code, _, err = await making
    assert code == 1
    assert "[backup_failed] its process ended with code -9" in err
    assert [one["problems"] for one in await node.json("verify", str(place))] == [[]]
    assert not (node.data_dir / WORK).exists()
    await node.manager_sets("backup.rate = infinity")
    second = await node.back_up(place)
    assert [one["id"] for one in await node.json("verify", str(place))] == [first["id"], second["id"]]
    assert not list(place.rglob("*.unfinished"))


async def test_a_place_is_of_one_node(node: BackedUp, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    await node.back_up(tmp_path / "place")
    other = await BackedUp(tmp_path / "other", capsys).start()
    try:
        code, _, err = await other.run(
            "ctl", "data", "backup", str(tmp_path / "place"), "--data-dir", str(other.data_dir)
        )
    finally:
        await other.stop()
    assert code == 1
    assert "give each node a place of its own" in err


async def test_a_backup_to_an_object_store(
    node: BackedUp, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    with s3_server() as server:
        place = f"s3://{BUCKET}/node1?scheme=http&endpoint_override={server.endpoint}&region=us-east-1"
        await subscribe_and_leave(node)
        client = await node.connect("publisher")
        for number in range(50):
            await client.publish("t/1", b"%d" % number, 1)
        first = await node.back_up(place)
        assert all(key.startswith(("node1/content/", "node1/backups/")) for key in server.listed())
        server.puts()
        await client.publish("t/1", b"last", 1)
        client.close()
        second = await node.back_up(place)
        assert len(server.puts()) == second["copied_files"] + 1 < second["files"]
        verified = await node.json("verify", place)
        assert [(one["id"], one["problems"]) for one in verified] == [(first["id"], []), (second["id"], [])]
        other = await restored(node, place, capsys)
        try:
            assert await queued(other, b"last") == [*(b"%d" % number for number in range(50)), b"last"]
        finally:
            await other.stop()


async def test_no_secret_of_a_place_is_in_an_error_a_log_or_an_alarm(
    node: BackedUp, caplog: pytest.LogCaptureFixture
) -> None:
    place = "nowhere://ada:Sekret@host/backups?token=Sekret"
    await node.manager_sets(f'backup {{ place = "{place}" }}')
    code, _, err = await node.run("ctl", "data", "backup", place, "--data-dir", str(node.data_dir))
    assert (code, "[backup_failed]" in err, "nowhere://" in err) == (1, True, True)
    part = node.node.parts.get(BackupsPart)
    (alarm,) = node.node.parts.get(KernelPart).alarms.active()
    assert "Sekret" not in "\n".join((err, caplog.text, repr(alarm.details), alarm.message, repr(part.status())))


async def test_a_backup_that_fails_in_an_unknown_way_is_an_alarm_too(node: BackedUp, tmp_path: Path) -> None:
    class Broken(Programs):
        async def start(self, module: str, *arguments: str, **options: object) -> asyncio.subprocess.Process:
            raise RuntimeError("nobody knows why")

    part = node.node.parts.get(BackupsPart)
    part.programs = Broken()
    with pytest.raises(BackupFailedError, match="nobody knows why"):
        await part.make(str(tmp_path / "place"), None)
    assert node.alarms() == ["backup_failed"]


async def test_backups_are_made_when_they_are_due_and_a_late_one_is_an_alarm(node: BackedUp, tmp_path: Path) -> None:
    place = tmp_path / "file" / "place"
    place.parent.write_text("no directory")
    clock, part = node.node.parts.get(KernelPart).clock, node.node.parts.get(BackupsPart)
    now_us = clock.now_us()
    clock.now_us = lambda: now_us  # type: ignore[method-assign]  # the time of the test
    await node.manager_sets(f'backup {{ enable = true, place = "{place}", every = 1h }}')

    async def attempt() -> None:
        part.tick(0)
        await part.finished()

    await attempt()
    assert node.alarms() == ["backup_failed"]
    now_us += 3_700_000_000
    await attempt()
    assert sorted(node.alarms()) == ["backup_failed", "backup_late"]
    place.parent.unlink()
    now_us += 700_000_000
    await attempt()
    assert node.alarms() == []
    status = await node.ask("backups.status")
    assert (status.last_place, status.last_at, status.next_at) == (str(place), now_us, now_us + 3_600_000_000)
    [row] = await node.ask("backups.list")
    assert (row.id, row.problems) == (status.last_id, [])
    await attempt()
    assert len(await node.ask("backups.list")) == 1
    now_us += 3_600_000_000
    await attempt()
    assert len(await node.ask("backups.list")) == 2
