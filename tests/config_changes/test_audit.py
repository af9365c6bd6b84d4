"""The audit log: who did what, bounded files, and a disk that does not take it."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from pathlib import Path, PosixPath
from typing import Any

import msgspec
import pytest

from heliograph.cli.main import main
from heliograph.config_changes.audit import ALARM, AuditLog, AuditRecord, all_newest_first, newest_first
from heliograph.config_changes.edits import Edit
from heliograph.node.kernel import KernelPart
from heliograph.rpc.methods import Action
from support.live_node import ALICE, LiveNode

pytestmark = pytest.mark.service

COUNT = Edit("log.audit.rotation_count = 2")


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[LiveNode]:
    """A running node with small files."""
    running = await LiveNode(tmp_path, "log.audit.rotation_size = 64KB").start()
    yield running
    await running.stop()


def action(number: int) -> Action:
    return Action("alice (uid 1000)", "a test", "clients.kick", {"clientid": f"c{number}", "why": 100 * "x"})


async def test_files_are_rotated_and_closed_to_others(live: LiveNode) -> None:
    await live.manager.change(COUNT, ALICE)
    for number in range(1500):
        live.part.audit.record(action(number))
        if number % 100 == 0:
            await live.part.audit.stop()
    await live.part.audit.stop()
    files = sorted(live.data_dir.glob("audit.log*"))
    assert [file.name for file in files] == ["audit.log", "audit.log.1", "audit.log.2", "audit.log.last"]
    (last,) = map(json.loads, files.pop().read_text().splitlines())
    assert all(file.stat().st_size <= 64 * 1024 and file.stat().st_mode & 0o077 == 0 for file in files)
    lines = [json.loads(line) for file in reversed(files) for line in file.read_text().splitlines()]
    numbers = [int(line["args"]["clientid"][1:]) for line in lines]
    assert numbers == list(range(numbers[0], 1500))
    assert last["args"]["clientid"] == f"c{numbers[0] - 1}"  # the last one of what is gone


async def test_a_day_has_a_file_of_its_own(live: LiveNode) -> None:
    day_s, now_s = 86_400.0, 20_000 * 86_400.0 - 2
    alarms = live.node.parts.get(KernelPart).alarms
    settings = replace(live.part.audit.settings, rotation_interval=day_s, rotation_count=2)
    file = live.data_dir / "days.log"
    for step_s in (0, 1, 1, 3_600, 5 * day_s, day_s, day_s):
        now_s += step_s
        audit = AuditLog(file, settings, alarms, partial(float, now_s))  # a start does not begin a file
        audit.record(action(int(now_s // day_s)))
        audit.record(action(int(now_s // day_s)))
        await audit.stop()
    days = {
        one.name: [json.loads(line)["args"]["clientid"] for line in one.read_text().splitlines()]
        for one in file.parent.glob("days*")
    }
    assert days == {
        "days.log": 2 * ["c20007"],
        "days.log.1": 2 * ["c20006"],
        "days.log.2": 2 * ["c20005"],
        "days.log.last": ["c20000"],
    }
    now_s += day_s
    audit = AuditLog(file, replace(settings, rotation_interval=None), alarms, partial(float, now_s))
    audit.record(action(1))
    await audit.stop()
    assert len(file.read_text().splitlines()) == 3


def found(live: LiveNode) -> list[AuditRecord]:
    return [one for records in all_newest_first(live.data_dir / "audit.log") for one in records]


async def test_no_flood_takes_the_last_change_of_another_caller(live: LiveNode) -> None:
    audit = live.part.audit
    audit.use(replace(audit.settings, rotation_count=1))
    audit.record(Action("user bob from 10.0.0.1, request ab", "", "banned.add", {"who": "bad"}))
    for number in range(2_000):
        topic = {"topic": "x" * 65_000, "payload": "******"}
        audit.record(Action(f"api_key meter from 10.0.0.2, request {number:x}", "", "messages.publish", topic))
        audit.record(action(number))
        if number % 100 == 0:
            await audit.stop()
    await audit.stop()
    lines = found(live)
    assert [line.args for line in lines if line.who.startswith("user bob")] == [{"who": "bad"}]
    assert {line.method for line in lines} == {"banned.add", "messages.publish", "clients.kick"}
    assert [line.at for line in lines] == sorted((line.at for line in lines), reverse=True)
    assert max(len(msgspec.json.encode(line)) for line in lines) < 1_000
    assert sum(file.stat().st_size for file in live.data_dir.glob("audit*")) < 5 * 64 * 1024


async def test_the_parts_of_an_import_are_one_line(live: LiveNode) -> None:
    one = Action("user bob from 10.0.0.1, request ab", "", "users.import", {"mechanism": "scram", "users": "******"})
    for _ in range(25):
        live.part.audit.record(one)
    live.part.audit.record(replace(one, who="user bob from 10.0.0.1, request cd"))
    live.part.audit.record(replace(one, outcome="user_invalid", message="no"))
    live.part.audit.record(action(1))
    lines = await live.audit()
    assert [(line["method"], line["outcome"], line["args"]) for line in lines[:3]] == [
        ("users.import", "done", {**one.args, "requests": 25}),
        ("users.import", "done", {**one.args, "requests": 1}),
        ("users.import", "user_invalid", one.args),
    ]


class PutAside(PosixPath):
    """A log that is put aside as soon as it is opened."""

    def open(self, *args: Any, **named: Any) -> Any:
        opened = super().open(*args, **named)
        if self.suffix == ".log":
            self.replace(self.with_name("audit.log.1"))
            self.touch()
        return opened


def test_a_line_is_read_once_also_where_its_file_is_put_aside(tmp_path: Path) -> None:
    record = AuditRecord("2026-01-01T00:00:00.000+00:00", "alice", "a test", "clients.kick", "done")
    (tmp_path / "audit.log").write_bytes(msgspec.json.encode(record) + b"\n")
    found = newest_first(PutAside(tmp_path / "audit.log"))
    assert [one for records in found for one in records] == [record]


async def test_a_disk_that_does_not_take_a_line_stops_nothing(live: LiveNode) -> None:
    alarms = live.node.parts.get(KernelPart).alarms
    (live.data_dir / "audit.log").mkdir()  # cannot be written, not by root either
    assert (await live.manager.change(COUNT, ALICE)).revision == 1
    live.part.audit.record(action(1))
    await live.part.audit.stop()
    assert [alarm.name for alarm in alarms.active()] == [ALARM]
    (live.data_dir / "audit.log").rmdir()
    live.part.audit.record(action(2))
    (line,) = await live.audit()
    assert (line["method"], line["missing"], alarms.active()) == ("clients.kick", 2, [])
    (live.data_dir / "audit.log").unlink()
    (live.data_dir / "audit.log").mkdir()
    live.part.audit.record(action(3))
    await live.part.audit.stop()
    assert [alarm.name for alarm in alarms.active()] == [ALARM]
    await live.manager.change(Edit("log.audit.enable = false"), ALICE)
    assert alarms.active() == []


async def test_a_line_that_fails_after_it_was_switched_off_is_no_alarm(live: LiveNode) -> None:
    audit = live.part.audit
    (live.data_dir / "audit.log").mkdir()
    audit.record(action(1))
    audit.use(replace(audit.settings, enable=False))  # the line is on its way
    await audit.stop()
    assert live.node.parts.get(KernelPart).alarms.active() == []


async def test_actions_of_the_control_socket_are_written_also_where_they_are_refused(live: LiveNode) -> None:
    assert await asyncio.to_thread(main, ["ctl", "clients", "kick", "nobody", "--data-dir", str(live.data_dir)]) == 1
    (line,) = await live.audit()
    assert (line["method"], line["outcome"]) == ("clients.kick", "not_found")
    assert "(uid " in str(line["who"])


async def test_it_can_be_switched_off(live: LiveNode) -> None:
    await live.manager.change(Edit("log.audit.enable = false"), ALICE)
    await live.manager.change(COUNT, ALICE)
    assert [line["args"] for line in await live.audit()] == []


async def test_a_line_may_name_a_file_whose_name_is_no_utf8(live: LiveNode) -> None:
    live.part.audit.record(Action("alice (uid 1000)", "a test", "trace.start", {}, "trace", os.fsdecode(b"no \xff")))
    live.part.audit.record(action(1))
    assert [line["method"] for line in await live.audit()] == ["trace.start", "clients.kick"]


async def test_a_refused_secret_is_in_no_message(live: LiveNode) -> None:
    data = ["--data-dir", str(live.data_dir)]
    for refused in (
        "listeners.ssl.more.ssl_options.password=hunter2",  # without a certificate
        "pipeline.token=[hunter2]",
        "pipeline.tokenn=hunter2",
        'prometheus.push_gateway.url="http://q:hunter2@127.0.0.1:1/p?sig=hunter2"',
        'connectors.http.x.url="http://q:of hunter2@127.0.0.1:1/p"',
        'connectors.http.x.url="http://127.0.0.1:1/p?sig=hunter2"',
        'connectors.http.x.url="http://127.0.0.1:1/hunter2#"',
        'actions.http.x={connector = x, parameters.body = "hunter2 ${x"}',
        'dashboard.sso.oidc={enable = true, clientid = x, issuer = "http://q:hunter2@far.example/p?sig=hunter2"}',
    ):
        for action_ in ("plan", "set"):
            assert await asyncio.to_thread(main, ["ctl", "conf", action_, refused, *data]) == 1
    lines = await live.audit()
    assert [line["outcome"] for line in lines] == 9 * ["config_change_refused"]
    assert "hunter2" not in json.dumps(lines)
