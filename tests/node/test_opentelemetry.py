"""What a node keeps for an OpenTelemetry collector: switched on and off while it runs, and fetched."""

import logging
from collections.abc import Awaitable
from pathlib import Path

import pytest

from heliograph.control import opentelemetry
from heliograph.control.proto_v1.opentelemetry import ExportArgs, NewWhitelistArgs, WaitingArgs, WhitelistArgs
from heliograph.node.kernel import KernelPart
from heliograph.node.opentelemetry import OpenTelemetryPart
from heliograph.rpc.methods import RpcError
from support.asking import CALL, Asker
from support.running import RunningNode

ALWAYS = """
node.name = "heliograph@otel"
durable_storage.messages.topics = []
listeners.tcp.default.bind = "127.0.0.1:0"
"""
TRACES = """
opentelemetry.traces {
  enable = true
  filter { trace_mode = e2e, e2e_tracing_options { sample_ratio = "100%", client_messaging = true } }
}
"""
LOGS = "opentelemetry.logs { enable = true, level = warning, max_queue_size = 3 }"


def asker(running: RunningNode) -> Asker:
    return Asker(opentelemetry.methods(running.node.parts.get(OpenTelemetryPart)))


async def put(running: RunningNode, kind: str, values: list[str]) -> None:
    """Set a list, as a caller of the control socket does."""
    method = next(
        one
        for one in opentelemetry.methods(running.node.parts.get(OpenTelemetryPart))
        if one.name == "opentelemetry.set_whitelist"
    )
    answer = method.handler(NewWhitelistArgs(kind, values), CALL)
    assert isinstance(answer, Awaitable)
    await answer


def samples(running: RunningNode) -> dict[str, float]:
    return {one.name: one.value for one in running.node.parts.get(OpenTelemetryPart).samples()}


async def test_spans_are_made_while_they_are_wanted_and_fetched_in_order(tmp_path: Path) -> None:
    async with RunningNode(tmp_path, ALWAYS) as running:
        client, asked = await running.connect("c"), asker(running)
        await client.publish("before", b"x", 1)
        assert asked.rows("opentelemetry.spans", WaitingArgs()) == []
        assert await running.change(TRACES)
        await client.publish("t/1", b"x", 1)
        await client.publish("t/2", b"x", 1)
        rows = asked.rows("opentelemetry.spans", WaitingArgs())
        assert [row.name for row in rows] == ["message.route", "client.publish"] * 2
        assert [row.attributes["message.topic"] for row in rows[1::2]] == ["t/1", "t/2"]
        assert samples(running)["opentelemetry.spans_waiting"] == 4
        assert asked.rows("opentelemetry.spans", WaitingArgs(after=rows[0].number)) == rows[1:]
        assert asked.rows("opentelemetry.spans", WaitingArgs()) == rows[1:]  # the first one was fetched
        assert await running.change()
        await client.publish("t/3", b"x", 1)
        assert asked.rows("opentelemetry.spans", WaitingArgs()) == []


async def test_an_authenticator_has_a_span_of_its_own(tmp_path: Path) -> None:
    users = tmp_path / "users.csv"
    users.write_text("user_id,password,is_superuser\nanna,secret,false\n")
    settings = f"""
    authentication = [{{ mechanism = password_based, backend = built_in_database, bootstrap_type = plain,
      password_hash_algorithm {{ name = plain }}, bootstrap_file = "{users}" }}]
    {TRACES.replace("client_messaging", "client_connect_disconnect")}
    """
    async with RunningNode(tmp_path, ALWAYS, settings) as running:
        await running.connect("c", username="anna", password=b"secret")
        assert await running.connack("d", "anna", b"wrong") != 0
        rows = asker(running).rows("opentelemetry.spans", WaitingArgs())
        asked, authn = ([row for row in rows if row.name == name] for name in ("client.authn_backend", "client.authn"))
        assert [row.attributes["authn.authenticator"] for row in asked] == ["password_based:built_in_database"] * 2
        assert [row.attributes["authn.result"] for row in asked] == ["success", "bad_username_or_password"]
        assert [row.parent_id for row in asked] == [row.span_id for row in authn]
        assert "secret" not in str(rows)


async def test_the_log_is_kept_from_its_level_on_and_its_oldest_entries_give_way(tmp_path: Path) -> None:
    async with RunningNode(tmp_path, ALWAYS, LOGS) as running:
        asked, log = asker(running), logging.getLogger("heliograph.tests")
        for number in range(5):
            log.warning("entry %d", number)
        log.info("of no weight")
        try:
            raise ValueError("what happened")
        except ValueError:
            log.exception("failed")
        rows = [row for row in asked.rows("opentelemetry.logs", WaitingArgs()) if row.logger == "heliograph.tests"]
        assert [row.text for row in rows] == ["entry 3", "entry 4", "failed"]
        assert [row.level for row in rows] == [30, 30, 40]
        assert "ValueError: what happened" in rows[-1].error
        assert samples(running)["opentelemetry.logs_dropped"] >= 3
        assert await running.change()
        log.warning("unheard")
        assert asked.rows("opentelemetry.logs", WaitingArgs()) == []


async def test_lists_are_checked_bounded_and_outlast_a_restart(tmp_path: Path) -> None:
    ratio = TRACES.replace("100%", "0%").replace("client_messaging", "clientid_match_rules_max = 2, client_messaging")
    async with RunningNode(tmp_path, ALWAYS, ratio) as running:
        await put(running, "clientid", ["a", "b", "a"])
        await put(running, "topic", ["room/+"])
        with pytest.raises(RpcError, match="3 values, and clientid_match_rules_max allows 2"):
            await put(running, "clientid", ["a", "b", "c"])
        with pytest.raises(RpcError, match="topic filter"):
            await put(running, "topic", ["a/#/b"])
        with pytest.raises(RpcError, match="there are clientid and topic"):
            await put(running, "../x", [])
    async with RunningNode(tmp_path, ALWAYS, ratio) as running:
        asked = asker(running)
        assert asked.rows("opentelemetry.whitelist", WhitelistArgs("clientid")) == ["a", "b"]
        other, listed = await running.connect("other"), await running.connect("a")
        for client in (other, listed):
            await client.publish("hall", b"x", 1)
        await other.publish("room/1", b"x", 1)
        rows = asked.rows("opentelemetry.spans", WaitingArgs())
        assert [row.attributes["client.clientid"] for row in rows if row.name == "client.publish"] == ["a", "other"]


async def test_a_damaged_file_of_lists_is_told_and_the_node_runs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    running = RunningNode(tmp_path, ALWAYS, TRACES)
    (tmp_path / "data").mkdir(exist_ok=True)
    (tmp_path / "data" / "opentelemetry_whitelists.json").write_text("{")
    async with running:
        assert asker(running).rows("opentelemetry.whitelist", WhitelistArgs("topic")) == []
    assert "the lists of what is always traced cannot be read" in caplog.text


async def test_a_collector_that_takes_nothing_is_an_alarm(tmp_path: Path) -> None:
    async with RunningNode(tmp_path, ALWAYS, TRACES) as running:
        asked, alarms = asker(running), running.node.parts.get(KernelPart).alarms
        asked.ask("opentelemetry.exported", ExportArgs("connection refused", 5, 7))
        (alarm,) = alarms.active()
        assert (alarm.name, alarm.details) == ("opentelemetry_export", {"endpoint": "http://localhost:4317"})
        assert "connection refused" in alarm.message
        assert samples(running)["opentelemetry.given_up"] == 7
        asked.ask("opentelemetry.exported", ExportArgs("", 9, 7))
        assert alarms.active() == []
        asked.ask("opentelemetry.exported", ExportArgs("connection refused", 9, 7))
        assert await running.change()
        assert alarms.active() == []
        asked.ask("opentelemetry.exported", ExportArgs("connection refused", 9, 8))  # sent before the change
        assert alarms.active() == [], "nothing is exported"


async def test_wrong_settings_are_named(tmp_path: Path) -> None:
    async with RunningNode(tmp_path, ALWAYS) as running:
        for settings in (
            'exporter.endpoint = "localhost:4317"',
            'traces.filter.e2e_tracing_options.sample_ratio = "200%"',
        ):
            with pytest.raises(Exception, match=settings.partition(" ")[0].rpartition(".")[2]):
                await running.change(f"opentelemetry.{settings}")
