"""`heliograph ctl conf` as it is used from a shell, against a running node."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from heliograph.cli.main import main
from support.cases import cases
from support.live_node import LiveNode

pytestmark = pytest.mark.service

Ctl = Callable[..., Awaitable[tuple[int, str, str]]]


@pytest_asyncio.fixture
async def live(tmp_path: Path) -> AsyncIterator[LiveNode]:
    """A running node whose own file sets one thing."""
    running = await LiveNode(tmp_path, "mqtt.max_topic_levels = 10\n").start()
    yield running
    await running.stop()


@pytest.fixture
def ctl(live: LiveNode, capsys: pytest.CaptureFixture[str]) -> Ctl:
    """Runs `heliograph ctl conf`: its exit code, output and errors."""

    async def run(*words: str) -> tuple[int, str, str]:
        code = await asyncio.to_thread(main, ["ctl", "conf", *words, "--data-dir", str(live.data_dir)])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


async def test_values_are_set_and_shown_with_their_origin(live: LiveNode, ctl: Ctl) -> None:
    code, told, _ = await ctl("plan", "log.audit.rotation_count=3", "node.name=a@b")
    assert code == 0
    assert [line.split() for line in told.splitlines()[:3]] == [
        ["PATH", "OLD", "NEW", "HOW"],
        ["node.name", '"heliograph@127.0.0.1"', '"a@b"', "restart"],
        ["log.audit.rotation_count", "10", "3", "live"],
    ]
    assert told.splitlines()[3:] == ["with the next start: node.name", "revision 0, nothing is changed"]
    code, told, _ = await ctl("set", "log.audit.rotation_count=3", "--comment", "fewer")
    assert (code, told.splitlines()[-1]) == (0, "revision 1")
    code, told, _ = await ctl("show", "log.audit", "--origins")
    file = live.configs / "cluster.hocon"
    assert told.splitlines() == [
        "log.audit.enable = true  # defaults",
        "log.audit.rotation_size = 50MB  # defaults",
        "log.audit.rotation_interval = infinity  # defaults",
        f"log.audit.rotation_count = 3  # cluster: {file}:6",
    ]
    code, told, _ = await ctl("show", "--json")
    rows = {row["path"]: row for row in map(json.loads, told.splitlines())}
    assert rows["mqtt.max_topic_levels"]["origin"] == f"node: {live.file}:1"
    assert rows["node.data_dir"]["origin"] == "command line"
    assert len(rows) > 150
    code, told, _ = await ctl("show_keys")
    assert "mqtt " in told


async def test_a_file_is_loaded_with_what_it_includes(live: LiveNode, ctl: Ctl, tmp_path: Path) -> None:
    (tmp_path / "more.hocon").write_text("rotation_size = 1MB")
    file = tmp_path / "change.hocon"
    file.write_text('log.audit { include "more.hocon" }\nretainer.max_payload_size = 2MB')
    assert (await ctl("load", str(file)))[0] == 0
    assert live.part.audit.settings.rotation_size == 1024 * 1024
    file.write_text("log.audit { rotation_count = 4 }")
    code, told, _ = await ctl("plan", "--load", str(file), "--json")
    assert [one["path"] for one in json.loads(told)["settings"]] == ["log.audit.rotation_count"]
    assert (await ctl("load", str(file)))[0] == 0
    assert "rotation_size" in live.cluster  # merged, as without --replace
    code, told, _ = await ctl("load", str(file), "--replace", "--json")
    assert json.loads(told)["revision"] == 3
    assert "rotation_size" not in live.cluster
    assert "2MB" in live.cluster
    code, told, _ = await ctl("diff", "1", "3")
    assert told.splitlines()[1:] == ['log.audit.rotation_size   "1MB"  -', "log.audit.rotation_count  -      4"]
    code, told, _ = await ctl("show-revision", "3")
    assert "rotation_count = 4" in told
    code, printed, _ = await ctl("rollback", "1", "--plan")
    assert [line.split() for line in printed.splitlines()[1:]] == [
        ["log.audit.rotation_size", "50MB", '"1MB"', "live"],
        ["log.audit.rotation_count", "4", "10", "live"],
        ["revision", "3,", "nothing", "is", "changed"],
    ]
    assert live.manager.revision == 3
    code, printed, _ = await ctl("rollback", "1", "--revision", "3", "--comment", "no")
    assert printed.splitlines()[-1] == "revision 4"
    code, printed, _ = await ctl("revisions")
    assert [line.split()[0] for line in printed.splitlines()] == ["NUMBER", "1", "2", "3", "4"]
    assert "(uid " in printed
    live.file.write_text("log.audit.enable = false\n")
    code, printed, _ = await ctl("reload")
    assert (code, live.part.audit.settings.enable) == (0, False)


async def test_the_file_of_a_running_node_is_checked(live: LiveNode, capsys: pytest.CaptureFixture[str]) -> None:
    check = ["conf", "check", str(live.file), "--data-dir", str(live.data_dir)]
    assert await asyncio.to_thread(main, check) == 0, capsys.readouterr().err
    live.file.write_text('node.name = "second@here"')
    assert await asyncio.to_thread(main, check) == 1
    assert "is used by another node, heliograph@127.0.0.1. Stop it, or" in capsys.readouterr().err


async def test_a_pipeline_without_spark_is_refused_at_once(
    live: LiveNode, ctl: Ctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)  # as where it is not installed
    code, _, said = await ctl(
        "set", 'durable_storage.flight={ enable = true, bind = "127.0.0.1:0" }', "pipeline.enable=true"
    )
    assert (code, live.manager.revision) == (1, 0)
    assert "pyspark is not installed: pip install 'heliograph[pipeline,sinks]'" in said


async def test_zones_show_what_they_inherit(live: LiveNode, ctl: Ctl) -> None:
    values = ["zones.certs.mqtt.max_inflight=7", "zones.certs.mqtt.mqueue_priorities.a=3", "zones.bare={}"]
    assert (await ctl("set", *values))[0] == 0
    _, printed, _ = await ctl("show", "zones.certs.mqtt")
    assert "zones.certs.mqtt.max_inflight = 7" in printed.splitlines()
    assert "zones.certs.mqtt.mqueue_store_qos0 = true  # inherited from mqtt.mqueue_store_qos0" in printed.splitlines()
    assert "mqueue_priorities = " not in printed
    _, printed, _ = await ctl("show", "zones", "--origins")
    own = f"inherited from mqtt.max_topic_levels, node: {live.file}:1"
    assert f"zones.bare.mqtt.max_topic_levels = 10  # {own}" in printed.splitlines()
    rows = {row["path"]: row for row in map(json.loads, (await ctl("show", "--json"))[1].splitlines())}
    shown = rows["zones.bare.flapping_detect.max_count"]
    assert (shown["value"], shown["inherited_from"]) == ("15", "flapping_detect.max_count")
    assert rows["zones.certs.mqtt.max_inflight"]["inherited_from"] == ""


async def test_what_holds_already_makes_no_revision(live: LiveNode, ctl: Ctl) -> None:
    assert (await ctl("set", "log.audit.rotation_count=3"))[0] == 0
    for words in (("log.audit.rotation_count=3",), ("mqtt.max_inflight=32", "--confirm", "60")):
        code, printed, _ = await ctl("set", *words)
        assert (code, printed.splitlines()) == (0, ["no setting differs", "no new revision; 1 stays"])
    assert "max_inflight" not in live.cluster
    code, printed, _ = await ctl("set", "mqtt.max_inflight=32", "--force")
    assert (code, printed.splitlines()) == (0, ["no setting differs", "revision 2"])
    assert "max_inflight = 32" in live.cluster
    code, printed, _ = await ctl("set", "mqtt.max_inflight=null")
    assert printed.splitlines() == ["no setting differs", "revision 3"]  # the layers below count again
    assert "max_inflight" not in live.cluster


@cases(
    ("words", "code", "told"),
    [
        (
            ("set", "mqtt.max_topic_levels=99"),
            1,
            "[config_change_hidden] mqtt.max_topic_levels = 99 has no effect: node: ",
        ),
        (("set", "mqtt.max_inflght=9"), 1, "mqtt.max_inflght: unknown key; did you mean max_inflight?"),
        (("set", "mqtt"), 2, "found 'mqtt', expected PATH=VALUE"),
        (
            ("set", "log.console.level=debug", "--revision", "7"),
            1,
            "[config_change_conflict] the change was made for revision 7",
        ),
        (("show", "mqt"), 1, "[config_no_setting] there is no setting at mqt; roots are node, listeners"),
        (("confirm",), 1, "revision 0 is not on trial"),
        (("rollback", "4", "--plan"), 1, "[config_no_revision] there is no revision 4; kept are none but 0"),
        (("rollback", "4"), 1, "[config_no_revision] there is no revision 4; kept are none but 0"),
        (("plan",), 2, "name PATH=VALUE, or a file with --load FILE"),
        (("show", "mqtt.max"), 1, "there is no setting at mqtt.max; in mqtt there are idle_timeout, max_packet_size"),
        (("show", "listeners.tcp.x.bind"), 1, "in listeners.tcp there are default"),
        (("load", "/nowhere"), 2, "/nowhere cannot be read: No such file or directory\n"),
        (("set", "log.console.level=debug", "--confirm", "0.2"), 1, "a change can wait from 1 to 86400 seconds"),
    ],
)
async def test_what_is_wrong_is_told_with_what_is_valid(
    live: LiveNode, ctl: Ctl, words: tuple[str, ...], code: int, told: str
) -> None:
    ended, _, said = await ctl(*words)
    assert told in said
    assert (ended, live.manager.revision) == (code, 0)


async def test_the_audit_log_says_who_asked(live: LiveNode, ctl: Ctl) -> None:
    await ctl("set", "log.audit.rotation_count=3")
    await ctl("set", "log.audit.rotation_count=none")
    done, refused = await live.audit()
    assert "(uid " in str(done["who"])
    assert str(done["origin"]).startswith("control socket, pid ")
    assert done["args"] == {"revision": 1, "settings": ["log.audit.rotation_count"]}
    assert (refused["method"], refused["outcome"]) == ("config.change", "config_change_refused")
