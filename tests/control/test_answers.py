"""What `heliograph ctl` says of a running node and does to it: retained messages, delayed ones, rules, alarms."""

import asyncio
import json
import logging
import re
import ssl
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from heliograph.cli.main import main
from heliograph.mqtt import packets as p
from heliograph.mqtt.encode import encode_packet
from heliograph.node.kernel import KernelPart
from support.certificates import Authority
from support.listening import CONNACK, CONNECT
from support.live_node import LiveNode
from support.packets import publish

SETTINGS = """
listeners.tcp.default.bind = "127.0.0.1:0"
durable_storage { messages.topics = ["t/#"], flight.enable = false }
sys_topics.sys_msg_interval = disabled
rule_engine.rules.add {
  sql = "SELECT payload.x + 1 AS y FROM \\"t/#\\"", description = "adds", actions = [{ function = console }]
}
"""


class Asked(LiveNode):
    """A node in this process that commands ask."""

    def __init__(self, directory: Path, settings: str, capsys: pytest.CaptureFixture[str]) -> None:
        super().__init__(directory, settings, SETTINGS)
        self._capsys = capsys

    async def run(self, *words: str) -> tuple[int, str, str]:
        """Run `heliograph WORDS` on the node: exit code, output, errors."""
        try:
            code = await asyncio.to_thread(main, [*words, "--data-dir", str(self.data_dir)])
        except SystemExit as ended:  # wrong arguments
            code = int(str(ended.code))
        output = self._capsys.readouterr()
        return code, output.out, output.err

    async def ctl(self, *words: str) -> str:
        """The output of `heliograph ctl WORDS`."""
        code, out, err = await self.run("ctl", *words)
        assert (code, err) == (0, "")
        return out

    async def refused(self, *words: str) -> str:
        """What `heliograph ctl WORDS` says is wrong."""
        code, out, err = await self.run("ctl", *words)
        assert (code, out) == (1, "")
        return err

    async def rows(self, *words: str) -> list[dict[str, Any]]:
        """The rows of a list."""
        return [json.loads(line) for line in (await self.ctl(*words, "--json")).splitlines()]

    async def publish(self, *packets: p.Publish) -> None:
        """Publish as a client; ends when the last one, at QoS 1, is acknowledged."""
        port = int(self.node.ready_line().partition("tcp://127.0.0.1:")[2].partition(",")[0])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        last = publish("t/last", b'{"x":1}', 1, 9, version=4)
        writer.write(CONNECT + b"".join(encode_packet(packet, 4) for packet in (*packets, last)))
        assert await reader.readexactly(len(CONNACK)) == CONNACK
        while (await reader.readexactly(4)) != b"\x40\x02\x00\x09":
            pass
        writer.close()
        await writer.wait_closed()


@pytest.fixture(params=["disc", "ram"])
async def asked(
    request: pytest.FixtureRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> AsyncIterator[Asked]:
    on_disk = f"retainer.backend.storage_type = {request.param}\ndelayed.storage_type = {request.param}\n"
    asked = Asked(tmp_path, on_disk, capsys)
    await asked.start()
    yield asked
    await asked.stop()


@pytest.fixture
async def one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> AsyncIterator[Asked]:
    asked = Asked(tmp_path, "", capsys)
    await asked.start()
    yield asked
    await asked.stop()


@pytest.fixture
def level() -> Iterator[None]:
    before = logging.getLogger().level
    yield
    logging.getLogger().setLevel(before)


def retained(topic: str, payload: bytes = b"abc") -> p.Publish:
    return publish(topic, payload, retain=True, version=4)


async def test_retained_messages_are_listed_shown_and_deleted(asked: Asked) -> None:
    await asked.publish(*(retained(f"d/{number:03}/{word}") for number in range(120) for word in ("state", "temp")))
    info = json.loads(await asked.ctl("retainer", "info", "--json"))
    assert info["messages"] == 240
    assert "240 messages" in await asked.ctl("retainer", "info")
    found = await asked.rows("retainer", "topics", "d/+/state")
    assert sorted(str(row["topic"]) for row in found) == [f"d/{number:03}/state" for number in range(120)]
    assert {row["bytes"] for row in found} == {3}
    assert len(await asked.rows("retainer", "topics", "--limit", "7")) == 7
    last = await asked.rows("retainer", "topics", "d/+/state", "--sort", "topic", "--limit", "2")
    assert [row["topic"] for row in last] == ["d/000/state", "d/001/state"]
    table = (await asked.ctl("retainer", "topics", "d/007/+")).splitlines()
    assert table[0].split() == ["TOPIC", "QOS", "BYTES", "CLIENTID", "RECEIVED_AT", "EXPIRES_AT"]
    assert sorted(line.split()[0] for line in table[1:]) == ["d/007/state", "d/007/temp"]
    assert "payload      abc" in await asked.ctl("retainer", "show", "d/007/temp")
    assert await asked.ctl("retainer", "clean", "d/+/state", "--dry-run") == "120 messages would be deleted\n"
    assert await asked.ctl("retainer", "clean", "d/+/state") == "120 messages were deleted\n"
    assert "[not_found]" in await asked.refused("retainer", "show", "d/007/state")
    assert "[bad_arguments]" in await asked.refused("retainer", "clean", "d/#/x")
    assert "[bad_arguments]" in await asked.refused("retainer", "show", "d/#")
    assert json.loads(await asked.ctl("retainer", "reindex", "start", "--json"))["state"] in ("ready", "building")
    assert "state" in await asked.ctl("retainer", "reindex", "status")


async def test_the_command_for_data_directories_asks_a_node_that_runs(asked: Asked) -> None:
    await asked.publish(*(retained(f"d/{number}") for number in range(3)))
    code, out, _ = await asked.run("retainer", "info")
    assert (code, out[:10]) == (0, "3 messages")
    assert "d/1" in await asked.ctl("retainer", "list", "d/1")
    code, out, _ = await asked.run("retainer", "ls", "d/1")
    assert (code, out.startswith("d/1  3 bytes, QoS 0, from 'c' at 20")) == (0, True)
    _, out, err = await asked.run("retainer", "ls", "--limit", "2")
    assert (len(out.splitlines()), "more than 2" in err) == (2, True)
    assert (await asked.run("retainer", "delete", "d/1"))[1] == "1 message was deleted\n"
    code, _, err = await asked.run("retainer", "delete", "d/#/1")
    assert (code, "[bad_arguments]" in err) == (1, True)


async def test_delayed_messages_are_listed_shown_and_let_go(asked: Asked) -> None:
    await asked.publish(*(publish(f"$delayed/600/late/{n}", b"x" * n, version=4) for n in range(60)))
    rows = await asked.rows("delayed", "list")
    assert [row["topic"] for row in rows] == [f"late/{n}" for n in range(60)]
    numbers = [str(row["id"]) for row in rows]
    assert "late/17" in await asked.ctl("delayed", "list")
    assert [row["topic"] for row in await asked.rows("delayed", "list", "--limit", "2")] == ["late/0", "late/1"]
    (largest,) = await asked.rows("delayed", "list", "--limit", "1", "--sort", "bytes")
    assert largest["topic"] == "late/59"
    shown = json.loads(await asked.ctl("delayed", "show", numbers[3], "--json"))
    assert (shown["topic"], shown["payload"], shown["clientid"]) == ("late/3", "xxx", "c")
    assert shown["expected_at"] == rows[3]["expected_at"] == rows[3]["received_at"] + 600_000_000
    assert (
        await asked.ctl("delayed", "delete", numbers[3])
        == f"message {numbers[3]} to 'late/3' is not published any more\n"
    )
    assert "[not_found]" in await asked.refused("delayed", "show", numbers[3])
    assert "[not_found]" in await asked.refused("delayed", "delete", numbers[3])
    assert (await asked.ctl("delayed", "info")).startswith("59 messages")


async def test_rules_are_shown_with_what_became_of_what_they_matched(one: Asked) -> None:
    await one.publish(publish("t/1", b"no JSON", version=4))
    (row,) = await one.rows("rules", "list")
    counts = row["counts"]
    assert isinstance(counts, dict)
    assert (counts["matched"], counts["passed"], counts["failed.exception"]) == (2, 1, 1)
    assert "not valid JSON" in str(row["last_error"])
    assert "add " in await one.ctl("rules", "list")
    shown = await one.ctl("rules", "show", "add")
    assert 'SELECT payload.x + 1 AS y FROM "t/#"' in shown
    assert "not valid JSON" in shown
    assert "did you mean 'add'?" in await one.refused("rules", "show", "ad")


async def test_alarms_are_listed_and_ended(one: Asked) -> None:
    alarms = one.node.parts.get(KernelPart).alarms
    for number in range(70):
        alarms.activate(f"a{number}", "it is wrong", {"number": number})
    active = await one.rows("alarms", "list")
    assert [row["name"] for row in active] == [f"a{number}" for number in range(70)]
    assert "it is wrong" in await one.ctl("alarms", "list")
    assert await one.ctl("alarms", "deactivate", "a7") == "the alarm a7 has ended\n"
    assert "active are: a0, a1" in await one.refused("alarms", "deactivate", "a7")
    assert [row["name"] for row in await one.rows("alarms", "list", "--history")] == ["a7"]
    assert "a7" in await one.ctl("alarms", "list", "--history")
    assert await one.ctl("alarms", "clear") == "1 alarm that had ended was forgotten\n"
    assert await one.rows("alarms", "list", "--history") == []
    acts = [(line["method"], line.get("args"), line["outcome"]) for line in await one.audit()]
    ended = ("alarms.deactivate", {"name": "a7"})
    assert acts == [(*ended, "done"), (*ended, "not_found"), ("alarms.clear", None, "done")]


async def test_the_level_of_the_log_is_set(one: Asked, level: None) -> None:
    assert await one.ctl("log", "set-level", "debug") == "debug\n"
    logging.getLogger("heliograph.test").error("the lamp is broken")
    shown = await one.ctl("log", "show", "--level", "warning", "--limit", "5")
    assert shown.endswith(" ERROR heliograph.test: the lamp is broken\n"), shown
    assert logging.getLogger().level == logging.DEBUG
    assert await one.ctl("log", "primary-level", "notice") == "info\n"
    assert await one.ctl("log", "primary-level") == "info\n"
    assert await one.ctl("log", "set-level", "error", "--save") == "error\n"
    assert one.cluster.count('level = "error"') + one.cluster.count("level = error") == 2
    code, _, err = await one.run("ctl", "log", "set-level", "loud")
    assert (code, "'warning'" in err) == (2, True)


async def test_the_process_and_its_databases_are_shown(one: Asked) -> None:
    await one.publish(*(publish(f"t/{number}", b'{"x":1}', version=4) for number in range(5)))
    process = json.loads(await one.ctl("vm", "--json"))
    assert process["memory"]["used"] > process["memory"]["held"]["interpreter"] > 0
    assert process["memory"]["held"]["sessions"] >= 0
    assert 0 < process["io"]["open_files"] < process["io"]["open_files_max"]
    assert process["load"]["user_s"] > 0
    assert process["loop"]["ticks"][-1]["at_most_s"] == "+Inf"
    told = await one.ctl("vm")
    assert all(word in told for word in ("open files", "interpreter", "latest tick", "load of the machine"))
    stored = json.loads(await one.ctl("ds", "info", "--json"))
    databases = {row["name"]: row for row in stored["databases"]}
    assert {"messages", "retained", "sessions"} <= set(databases)
    assert all(row["is_open"] and not row["problem"] for row in databases.values())
    assert all(row["disk_bytes"] > 0 for row in databases.values())
    assert sum(generation["messages"] for generation in stored["generations"]) == 6
    assert not stored["reader"]["is_enabled"]
    assert "generations of messages" in await one.ctl("ds", "info")
    assert "there are: messages" in await one.refused("ds", "info", "--database", "no")
    code, _, err = await one.run("storage", "check", "--repair")
    assert (code, "heliograph ctl ds info" in err) == (1, True)
    code, out, _ = await one.run("ctl", "pipeline", "status")
    assert (code, "runs no pipeline" in out) == (1, True)


async def test_listeners_are_listed_stopped_and_started(one: Asked) -> None:
    (row,) = await one.rows("listeners", "list")
    assert (row["id"], row["is_listening"], row["connections"]) == ("tcp:default", True, 0)
    assert "listening" in await one.ctl("listeners", "list")
    assert await one.ctl("listeners", "stop", "tcp:default") == "the listener tcp:default is stopped\n"
    assert "stopped already" in await one.ctl("listeners", "stop", "tcp:default")
    assert "stopped" in await one.ctl("listeners", "list")
    assert "[listener_bind]" in await one.refused("listeners", "restart", "tcp:default")
    assert await one.ctl("listeners", "start", "tcp:default") == "the listener tcp:default accepts connections\n"
    assert await one.ctl("listeners", "restart", "tcp:default") == "the listener tcp:default has been restarted\n"
    await one.publish()
    assert "there are tcp:default" in await one.refused("listeners", "stop", "tcp:other")
    assert "is not enabled any more" in await one.ctl("listeners", "enable", "tcp:default", "false")
    assert await one.rows("listeners", "list") == []
    assert "is enabled" in await one.ctl("listeners", "enable", "tcp:default", "true")
    await one.publish()
    assert "[config_no_setting]" in await one.refused("listeners", "enable", "tcp:other", "true")


async def test_certificates_are_read_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    authority = Authority(tmp_path)
    secure = f'listeners.ssl.safe {{ bind = "127.0.0.1:0", ssl_options.certfile = "{authority.server()}" }}'
    asked = Asked(tmp_path, secure, capsys)
    await asked.start()

    async def served() -> str:
        port = int(re.findall(r"ssl://127.0.0.1:(\d+)", asked.node.ready_line())[0])
        return await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", port))

    first = await served()
    (tmp_path / "server.pem").write_text("no certificate")
    assert "listeners.ssl.safe.ssl_options." in await asked.refused("certs", "reload")
    assert await served() == first
    authority.server()
    assert await served() == first
    assert await asked.ctl("certs", "reload") == "certificates were read again; listeners with TLS: ssl:safe\n"
    second = await served()
    assert second != first
    authority.server()
    assert json.loads(await asked.ctl("pem_cache", "clean", "all", "--json")) == {"listeners": ["ssl:safe"]}
    assert await served() not in (first, second)
    await asked.stop()


@pytest.mark.parametrize(
    "group", ["listeners", "certs", "pem_cache", "retainer", "delayed", "rules", "alarms", "log", "pipeline", "ds"]
)
def test_help_has_examples(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["ctl", group, "--help"])
    assert f"heliograph ctl {group} " in capsys.readouterr().out.partition("example")[2]
