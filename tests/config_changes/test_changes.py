"""Changes of the configuration of a running node: what holds, what is written, what is refused, what goes back."""

import asyncio
import contextlib
import errno
import logging
import os
import socket
import stat
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from heliograph.broker import hooks
from heliograph.cli.main import main
from heliograph.config.settings import Config
from heliograph.config_changes.edits import REPLACE, Edit
from heliograph.config_changes.errors import (
    ChangeConflictError,
    ConfigRefusedError,
    ConfigWriteError,
    HiddenChangeError,
    NoRevisionError,
)
from heliograph.config_changes.held import INCOMPLETE_ALARM
from heliograph.config_changes.terms import Terms
from heliograph.node.kernel import KernelPart
from heliograph.node.log_part import LogPart
from heliograph.parts import Change
from heliograph.storage.durable_files import write_durably
from support.cases import cases
from support.live_node import ALICE, LiveNode
from support.mosquitto import free_port

pytestmark = pytest.mark.service


@pytest_asyncio.fixture
async def live(tmp_path: Path) -> AsyncIterator[LiveNode]:
    """A running node whose own file sets one thing."""
    running = await LiveNode(tmp_path, "mqtt.max_topic_levels = 10\n").start()
    yield running
    await running.stop()


def values(**settings: str) -> Edit:
    return Edit(values=[(path.replace("__", "."), text) for path, text in settings.items()])


async def test_a_change_holds_is_written_and_is_told(
    live: LiveNode, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    told: list[tuple[object, ...]] = []
    live.node.broker.hooks.point(hooks.CONFIG_CHANGED).add(lambda *args: told.append(args[:-1]), 0)
    edit = values(node__name="other@host", log__audit__rotation_count="3")
    planned = await live.manager.plan(edit)
    assert (planned.revision, live.cluster, told) == (0, "", [])
    outcome = await live.manager.change(edit, ALICE, Terms(comment="more"))
    assert outcome.settings == planned.settings
    rows = {one.path: (one.old, one.new, one.how) for one in outcome.settings}
    assert rows["log.audit.rotation_count"] == ("10", "3", "live")
    assert rows["node.name"] == ('"heliograph@127.0.0.1"', '"other@host"', "restart")
    assert outcome.restart == ["node.name"]
    assert told[0][0] == 1
    assert live.part.audit.settings.rotation_count == 3
    assert "# revision 1\nnode {\n" in live.cluster
    assert stat.S_IMODE((live.configs / "cluster.hocon").stat().st_mode) == 0o600
    (line,) = await live.audit()
    assert (line["who"], line["method"], line["outcome"]) == ("alice (uid 1000)", "config.change", "done")
    # What waits for the restart is not told as a change again, and stays among what waits.
    later = await live.manager.change(values(log__audit__rotation_count="4"), ALICE)
    assert [one.path for one in later.settings] == ["log.audit.rotation_count"]
    assert later.restart == ["node.name"]
    await live.manager.change(values(retainer__backend__storage_type="ram"), ALICE)
    log = [line.partition("again: ")[2] for line in caplog.messages if "when the node is started again" in line]
    assert log == ["node.name", "retainer.backend.storage_type"]  # each is told once
    command = ["ctl", "status", "--data-dir", str(live.data_dir)]
    assert await asyncio.to_thread(main, command) == 0  # what waits is no fault
    assert "with the next start: node.name, retainer.backend.storage_type\n" in capsys.readouterr().out
    await live.manager.roll_back(0, ALICE)
    assert await asyncio.to_thread(main, command) == 0
    assert "with the next start" not in capsys.readouterr().out


async def test_a_value_goes_back_to_what_lies_below(live: LiveNode) -> None:
    await live.manager.change(values(log__audit__rotation_count="3", retainer__max_payload_size="2MB"), ALICE)
    await live.manager.change(values(log__audit__rotation_count="null"), ALICE)
    assert "rotation_count" not in live.cluster
    assert live.part.audit.settings.rotation_count == 10
    text = Edit("log.audit { enable = false }", REPLACE)
    await live.manager.change(text, ALICE)
    assert "max_payload_size" in live.cluster  # another root
    assert not live.part.audit.settings.enable


async def test_what_a_higher_layer_hides_is_refused_with_its_line(live: LiveNode) -> None:
    edit = values(mqtt__max_topic_levels="99", log__audit__rotation_count="5")
    with pytest.raises(HiddenChangeError) as refused:
        await live.manager.change(edit, ALICE)
    assert f"node: {live.file}:1" in str(refused.value)
    assert live.cluster == ""
    outcome = await live.manager.change(edit, ALICE, Terms(force=True))
    hidden = [one for one in outcome.settings if one.how == "hidden"]
    assert [(one.path, one.old, one.new, one.shadowed_by) for one in hidden] == [
        ("mqtt.max_topic_levels", "10", "99", f"node: {live.file}:1")
    ]
    # What the higher layer says itself is no change that it hides.
    assert (await live.manager.change(values(mqtt__max_topic_levels="10"), ALICE)).revision == 2
    # Nor is a group that says nothing any more: layers merge.
    assert (await live.manager.change(values(mqtt__max_inflight="7"), ALICE)).revision == 3
    assert (
        await live.manager.change(values(mqtt__max_inflight="null", mqtt__max_topic_levels="null"), ALICE)
    ).revision == 4


@cases(
    ("edit", "told"),
    [
        (
            Edit("mqtt.max_inflght = 5", name="live.conf"),
            "live.conf:1: mqtt.max_inflght: unknown key; did you mean",
        ),
        (
            Edit("mqtt { max_qos_allowed = 7 }", name="live.conf"),
            "live.conf:1: mqtt.max_qos_allowed: found 7",
        ),
        (Edit("mqtt { ", name="live.conf"), "[config_syntax] live.conf:"),
        (Edit('rule_engine.rules.r.sql = "SELECT nonsense"'), "rule_engine.rules.r.sql: "),
        (values(node__data_dir="elsewhere"), "node.data_dir cannot be set here"),
        (Edit(values=[("mqtt..x", "1")]), "'mqtt..x' is no path of a setting"),
        (Edit(values=[("schema_registry.external.e.auth.password", "******")]), "found ******, which keeps a secret"),
        (
            Edit('listeners.ssl.default { bind = "127.0.0.1:0", ssl_options.certfile = "/nowhere.pem" }', name="x"),
            "x:1: listeners.ssl.default.ssl_options: listeners.ssl.default.ssl_options.certfile",
        ),
        (
            Edit(
                'schema_registry.external.e { type = confluent, url = "http://127.0.0.1:1"\n'
                'auth { username = u, password = "file:///nowhere" } }'
            ),
            "[secret_file] the file /nowhere with a secret cannot be read",
        ),
        (Edit('banned.bootstrap_file = "/nowhere"'), "[banned_bootstrap_file]"),
    ],
)
async def test_what_is_wrong_is_told_and_leaves_everything(live: LiveNode, edit: Edit, told: str) -> None:
    before, written = live.manager.layers, len(await live.audit())
    for attempt in (live.manager.plan(edit), live.manager.change(edit, ALICE)):
        with pytest.raises(ConfigRefusedError) as refused:
            await attempt
        assert told in str(refused.value)
    assert (live.cluster, live.manager.layers, live.manager.revision) == ("", before, 0)
    assert not live.configs.exists() or not list(live.configs.glob("revisions/*"))
    (line,) = (await live.audit())[written:]
    assert line["outcome"] == "config_change_refused"


async def test_a_port_that_is_taken_keeps_everything_as_it_was(live: LiveNode) -> None:
    port = free_port()
    with socket.create_server(("127.0.0.1", port)):
        edit = Edit(f'listeners.tcp.other.bind = "127.0.0.1:{port}"\nlog.audit.rotation_count = 3')
        with pytest.raises(ConfigRefusedError, match=r"\[listener_bind\]"):
            await live.manager.change(edit, ALICE)
        assert (live.cluster, live.part.audit.settings.rotation_count) == ("", 10)
    assert (await live.manager.change(edit, ALICE)).revision == 1
    socket.create_connection(("127.0.0.1", port), timeout=10).close()
    await live.manager.roll_back(0, ALICE)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=10)


async def test_two_changes_at_once_and_one_for_an_old_revision(live: LiveNode) -> None:
    terms = Terms(revision=0)
    ended = await asyncio.gather(
        live.manager.change(values(log__audit__rotation_count="3"), ALICE, terms),
        live.manager.change(values(log__audit__rotation_count="4"), ALICE, terms),
        return_exceptions=True,
    )
    assert isinstance(ended[1], ChangeConflictError)
    assert live.part.audit.settings.rotation_count == 3
    changes = [live.manager.change(values(log__audit__rotation_count=str(n)), ALICE) for n in range(20, 30)]
    await asyncio.gather(*changes)
    assert live.manager.revision == 11
    assert live.part.audit.settings.rotation_count == 29


async def test_a_revision_and_its_settings_are_seen_together(live: LiveNode, monkeypatch: pytest.MonkeyPatch) -> None:
    before, in_thread = live.manager.layers, asyncio.to_thread
    seen: set[tuple[int, bool]] = set()

    async def watched(work: Callable[..., object], *args: object) -> object:
        done = await in_thread(work, *args)
        seen.add((live.manager.revision, live.manager.layers is before))
        return done

    monkeypatch.setattr(asyncio, "to_thread", watched)
    await live.manager.change(values(log__audit__rotation_count="3"), ALICE)
    assert (0, True) in seen
    assert seen <= {(0, True), (1, False)}


async def test_a_change_comes_to_its_end_without_its_asker(live: LiveNode) -> None:
    asked = asyncio.ensure_future(live.manager.change(values(log__audit__rotation_count="3"), ALICE))
    await asyncio.sleep(0)
    asked.cancel()
    await live.manager.change(values(log__audit__rotation_size="1MB"), ALICE)
    assert live.manager.revision == 2
    assert live.part.audit.settings.rotation_count == 3


async def test_revisions_go_back_and_keep_secrets(live: LiveNode) -> None:
    first = 'durable_storage.flight.tokens = [{ name = a, token = "0123456789abcdef" }]\nlog.audit.rotation_count = 3'
    await live.manager.change(Edit(first), ALICE, Terms(comment="one"))
    await live.manager.change(values(log__audit__rotation_count="4"), ALICE)
    one, two = await live.manager.revisions()
    assert (one.number, one.who, one.origin, one.comment) == (1, "alice (uid 1000)", "a test", "one")
    assert "0123456789abcdef" in live.cluster
    assert "0123456789abcdef" not in one.text + two.text
    outcome = await live.manager.roll_back(1, ALICE)
    assert outcome.revision == 3
    assert live.part.audit.settings.rotation_count == 3
    assert "0123456789abcdef" in live.cluster
    assert (await live.manager.show_revision(3)).text == one.text
    with pytest.raises(NoRevisionError, match="there is no revision 7; kept are 1, 2, 3"):
        await live.manager.roll_back(7, ALICE)
    await live.manager.roll_back(0, ALICE)
    assert live.part.audit.settings.rotation_count == 10
    with pytest.raises(ConfigRefusedError, match="none is set"):
        await live.manager.roll_back(1, ALICE)


async def test_a_part_that_raises_is_named_until_a_later_change_succeeds(
    live: LiveNode, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(self: LogPart, new: Config) -> Change:
        nothing: dict[str, str] = {}
        return Change(lambda: nothing["no"])

    alarms = live.node.parts.get(KernelPart).alarms
    with monkeypatch.context() as patched:
        patched.setattr(LogPart, "check", broken)
        outcome = await live.manager.change(values(log__audit__rotation_count="3"), ALICE)
    assert outcome.failed == {"log": "KeyError: 'no'"}
    assert [alarm.name for alarm in alarms.active()] == [INCOMPLETE_ALARM]
    await live.manager.reload(ALICE)
    assert alarms.active() == []


async def test_files_are_read_again(live: LiveNode, caplog: pytest.LogCaptureFixture) -> None:
    live.file.write_text("log.audit.rotation_count = 7\n")
    with caplog.at_level(logging.INFO):
        assert await live.node.read_again()
    assert live.part.audit.settings.rotation_count == 7
    assert "log.audit.rotation_count" in "\n".join(caplog.messages)
    assert live.manager.revision == 0  # nothing was written
    live.file.write_text("log.audit.rotation_count = no\n")
    assert not await live.node.read_again()
    assert f"{live.file}:1: log.audit.rotation_count" in "\n".join(caplog.messages)


async def test_a_change_by_hand_is_not_overwritten_but_taken_over(live: LiveNode) -> None:
    await live.manager.change(values(log__audit__rotation_count="3"), ALICE)
    file = live.configs / "cluster.hocon"
    file.write_text(live.cluster.replace("= 3", "= 8"))
    with pytest.raises(ChangeConflictError, match="was changed by another program"):
        await live.manager.change(values(log__audit__rotation_size="1MB"), ALICE)
    assert (await live.manager.reload(ALICE)).revision == 2
    assert live.part.audit.settings.rotation_count == 8
    assert "= 8" in (await live.manager.show_revision(2)).text
    await live.stop()
    file.write_text(live.cluster.replace("= 8", "= 9"))  # while no node runs
    await live.start()
    assert live.part.audit.settings.rotation_count == 9
    assert [(await live.manager.reload(ALICE)).revision for _ in range(2)] == [3, 3]
    assert "= 9" in (await live.manager.show_revision(3)).text


@contextlib.contextmanager
def full_disk(monkeypatch: pytest.MonkeyPatch, name: str, *, is_late: bool = False) -> Iterator[None]:
    """A disk that takes half of a file of that name; or, late, all of it, and then says that it may not be there."""

    def write(file: Path, content: bytes, mode: int = 0o666) -> None:
        if file.name == name and not is_late:
            file.with_name(f".{name}.unfinished").write_bytes(content[: len(content) // 2])
        else:
            write_durably(file, content, mode)
        if file.name == name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr("heliograph.config_changes.files.write_durably", write)
        yield


async def test_a_disk_that_is_full_leaves_everything(live: LiveNode, monkeypatch: pytest.MonkeyPatch) -> None:
    await live.manager.change(values(log__audit__rotation_count="3"), ALICE)
    before = {file: file.read_bytes() for file in live.configs.rglob("*") if file.is_file()}
    for name, is_late in (("0000000002.json", False), ("cluster.hocon", False), ("cluster.hocon", True)):
        with (
            full_disk(monkeypatch, name, is_late=is_late),
            pytest.raises(ConfigWriteError, match="No space left on device"),
        ):
            await live.manager.change(values(log__audit__rotation_count="4"), ALICE)
        assert {file: file.read_bytes() for file in live.configs.rglob("*") if file.is_file()} == before
    assert live.part.audit.settings.rotation_count == 3
    assert (await live.manager.change(values(log__audit__rotation_count="4"), ALICE)).revision == 2


async def test_nothing_is_planned_at_the_end_of_a_node_and_a_plan_does_not_end_with_its_asker(live: LiveNode) -> None:
    planning = asyncio.create_task(live.manager.plan(values(log__audit__rotation_count="3")))
    await asyncio.sleep(0)
    planning.cancel()
    await live.manager.stop()  # waits for it
    assert planning.cancelled()
    with pytest.raises(ChangeConflictError, match="the node stops"):
        await live.manager.plan(values(log__audit__rotation_count="3"))
