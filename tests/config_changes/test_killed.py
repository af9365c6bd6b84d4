"""A node that is killed at each step of a change starts with the old or the new configuration, never with a mixture."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from config_changes.killing import AFTER, BEFORE
from heliograph.config_changes.errors import ChangeConflictError
from heliograph.config_changes.files import ConfigFiles
from heliograph.config_changes.terms import Terms
from heliograph.node.kernel import KernelPart
from support.dying import TESTS
from support.live_node import ALICE, LiveNode

pytestmark = pytest.mark.service

REVISION = "0000000002.json"
OLD = (
    *(f"{when} {name}" for name in (REVISION, "unconfirmed.json", "cluster.hocon") for when in ("before", "half of")),
    f"after {REVISION}",
    "after unconfirmed.json",
    "before cluster.hocon takes its place",
)
NEW = ("after cluster.hocon", "before the commit", "before the confirmation")


@pytest.mark.slow
async def test_each_step(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "config_changes.killing", str(tmp_path), *OLD, *NEW]
    run = partial(subprocess.run, command, cwd=TESTS, capture_output=True, text=True, timeout=100, check=True)
    ended = await asyncio.to_thread(run)
    assert json.loads(ended.stdout) == dict.fromkeys((*OLD, *NEW), -signal.SIGKILL), ended.stderr
    for step in (*OLD, *NEW):
        await looks_whole(tmp_path / step.replace(" ", "_"), step)


async def looks_whole(directory: Path, step: str) -> None:
    live = await LiveNode(directory).start()
    number, count, secret = (1, 3, "the secret before") if step in OLD else (2, 4, "the other secret")
    assert (live.manager.revision, live.part.audit.settings.rotation_count) == (number, count), step
    assert secret in live.cluster, step
    assert [one.number for one in await live.manager.revisions()] == list(range(1, number + 1)), step
    kept = {f"{one:010}.json" for one in range(1, number + 1)} | {"cluster.hocon"}
    assert {file.name for file in live.configs.rglob("*") if file.is_file()} - {"unconfirmed.json"} == kept, step
    # What was on trial when the process died still is, and goes back with the secret that it had.
    assert (live.manager.confirm_until is None) is (step in OLD), step
    if step in OLD:
        assert (await live.manager.change(AFTER, ALICE)).revision == 2, step
    else:
        await live.manager.roll_back(1, ALICE)
        assert live.part.audit.settings.rotation_count == 3, step
    await live.stop()


class Clock:
    """The time of the node, which a test moves."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[LiveNode]:
    """A running node."""
    running = await LiveNode(tmp_path, now_s=Clock()).start()
    await running.manager.change(BEFORE, ALICE)
    yield running
    await running.stop()


def pass_s(live: LiveNode, seconds: float) -> None:
    assert isinstance(live.now_s, Clock)
    live.now_s.now += seconds
    live.manager.tick()


async def test_a_change_that_is_not_confirmed_goes_back(live: LiveNode) -> None:
    outcome = await live.manager.change(AFTER, ALICE, Terms(confirm_s=60))
    assert outcome.confirm_until == 1_000_060.0
    with pytest.raises(ChangeConflictError, match="revision 2 is on trial"):
        await live.manager.change(BEFORE, ALICE)
    pass_s(live, 59)
    assert live.part.audit.settings.rotation_count == 4
    pass_s(live, 1)
    await live.manager.settled()
    assert live.part.audit.settings.rotation_count == 3
    assert "the secret before" in live.cluster
    last = (await live.manager.revisions())[-1]
    assert (last.number, last.who, last.comment) == (3, "heliograph", "revision 2 was not confirmed in time")
    assert (await live.audit())[-1]["method"] == "config.rollback"
    assert (await live.manager.change(AFTER, ALICE)).revision == 4


async def test_a_change_that_is_confirmed_stays(live: LiveNode) -> None:
    await live.manager.change(AFTER, ALICE, Terms(confirm_s=60))
    assert await live.manager.confirm(ALICE) == 2
    pass_s(live, 1000)
    await live.manager.settled()
    assert (live.manager.revision, live.part.audit.settings.rotation_count) == (2, 4)
    await live.stop()
    ConfigFiles(live.configs / "cluster.hocon").recover(2_000_000.0)
    await live.start()
    assert (live.manager.revision, live.part.audit.settings.rotation_count) == (2, 4)


async def test_a_trial_goes_on_over_a_restart_and_ends_before_one_that_is_late(live: LiveNode) -> None:
    await live.manager.change(AFTER, ALICE, Terms(confirm_s=60))
    await live.stop()
    files = ConfigFiles(live.configs / "cluster.hocon")
    files.recover(1_000_059.0)
    await live.start()
    assert (live.manager.confirm_until, live.part.audit.settings.rotation_count) == (1_000_060.0, 4)
    await live.stop()
    files.recover(1_000_060.0)
    await live.start()
    assert (live.manager.confirm_until, live.part.audit.settings.rotation_count) == (None, 3)
    assert live.manager.revision == 3
    assert "the secret before" in live.cluster
    files.recover(1_000_060.0)
    assert files.number() == 3


async def test_what_cannot_go_back_is_an_alarm_and_tried_again(live: LiveNode, monkeypatch: pytest.MonkeyPatch) -> None:
    await live.manager.change(AFTER, ALICE, Terms(confirm_s=60))
    alarms = live.node.parts.get(KernelPart).alarms

    def full(file: Path, content: bytes, mode: int = 0o666) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("heliograph.config_changes.files.write_durably", full)
        pass_s(live, 60)
        await live.manager.settled()
        assert [alarm.name for alarm in alarms.active()] == ["config_not_gone_back"]
        assert live.part.audit.settings.rotation_count == 4
        attempts = len(await live.audit())
        pass_s(live, 1)
        await live.manager.settled()
        assert len(await live.audit()) == attempts  # the log is not filled with attempts
    pass_s(live, 10)
    await live.manager.settled()
    assert (live.part.audit.settings.rotation_count, alarms.active()) == (3, [])
    await live.manager.change(AFTER, ALICE, Terms(confirm_s=60))
    with monkeypatch.context() as patched:
        patched.setattr("heliograph.config_changes.files.write_durably", full)
        pass_s(live, 60)
        await live.manager.settled()
        assert [alarm.name for alarm in alarms.active()] == ["config_not_gone_back"]
    await live.manager.confirm(ALICE)
    assert (live.part.audit.settings.rotation_count, alarms.active()) == (4, [])
