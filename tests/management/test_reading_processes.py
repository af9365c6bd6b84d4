"""Processes that read stored messages for the API and the command: they end with it, and so does what they start."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.managed_clients import connected
from support.management import KEY, SECRET, ManagedNode
from support.sessions_of_processes import children_of, in_session
from support.waiting import wait_until

PATH = "/heliograph/rule_replays"
ADMIN = {"username": "ann", "password": "kept-password-1"}
SETTINGS = f"""durable_storage.messages.topics = ["kept/#", "large"]
dashboard {{ default_username = "{ADMIN["username"]}", default_password = "{ADMIN["password"]}" }}
rule_engine.jq_function_default_timeout = 300s
rule_engine.rules.slow {{ enable = false, sql = "SELECT jq('def f: f; f', payload) AS x FROM \\"kept/#\\"" }}
pipeline {{ master = "local[1]", spark_conf {{ spark.driver.memory = 512m }} }}"""
LARGE = 24
LARGE_BYTES = 900_000


@pytest.fixture(scope="module")
def managed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManagedNode]:
    """A node that has stored a message of `kept`, and more large ones than the buffers of a connection hold."""
    with ManagedNode(tmp_path_factory.mktemp("replayed"), SETTINGS, are_programs_copies=False) as node:
        asyncio.run(_publish(node))
        asked: dict[str, str | int] = {"topic": "large", "payload": "none", "limit": 1000}
        wait_until(
            # A search that takes too long on a slow machine is refused: the next one finds them.
            lambda: len(node.api.get("/heliograph/messages", params=asked).json().get("data", ())) == LARGE,
            "the reader has all of them",
        )
        yield node


async def _publish(node: ManagedNode) -> None:
    async with connected(node, "c") as client:
        await client.publish("kept/a", b'{"n": 1}', 1)
        for _ in range(LARGE):
            await client.publish("large", bytes(LARGE_BYTES), 1)


def begun(node: ManagedNode, **body: Any) -> str:
    answer = node.api.post(PATH, json={"from": "earliest", **body})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def management_of(node: ManagedNode) -> int:
    (management,) = children_of(node.node.pid, "heliograph.management")
    return management


def command(node: ManagedNode, *words: str) -> list[str]:
    program = (sys.executable, "-m", "heliograph.cli.main", "rule", "replay")
    return [*program, *words, "--from", "earliest", "--data-dir", str(node.data_dir)]


def replay_processes(node: ManagedNode) -> list[int]:
    return children_of(management_of(node), "heliograph.pipeline.replay")


def slow(node: ManagedNode) -> tuple[str, int]:
    """A replay that does not end by itself, and its process, which has started another one."""
    before = set(replay_processes(node))
    replay = begun(node, rule="slow")
    (process,) = set(replay_processes(node)) - before
    wait_until(lambda: len(in_session(process)) > 1, "its jq has started")
    return replay, process


def test_a_cancelled_replay_leaves_no_process_and_few_run_at_once(managed: ManagedNode) -> None:
    (one, its), (other, others) = slow(managed), slow(managed)
    third = managed.api.post(PATH, json={"from": "earliest", "rule": "slow"})
    assert (third.status_code, third.json()["code"]) == (503, "SERVICE_UNAVAILABLE")
    early = managed.api.post(f"{PATH}/{one}/start")
    assert (early.status_code, early.json()["code"]) == (409, "CONFLICT")
    for replay in (one, other):
        assert managed.api.get(f"{PATH}/{replay}").json()["state"] == "running"
        assert managed.api.delete(f"{PATH}/{replay}").status_code == 204
    assert replay_processes(managed) == []
    wait_until(lambda: not in_session(its) and not in_session(others), "what they have started is gone")


def test_ctrl_c_ends_the_command(managed: ManagedNode) -> None:
    words = command(managed, "slow")
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, start_new_session=True) as running:
        wait_until(lambda: len(in_session(running.pid)) > 1, "its jq has started")
        running.send_signal(signal.SIGINT)
        _, printed = running.communicate(timeout=30)
    assert running.returncode == 130
    assert "cancelled" in printed
    wait_until(lambda: not in_session(running.pid), "what it has started is gone")


@pytest.mark.service
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_cancelled_replay_leaves_no_spark(managed: ManagedNode) -> None:
    replay = begun(managed, rule="slow", engine="spark")
    (process,) = replay_processes(managed)
    wait_until(lambda: len(in_session(process)) > 1, "Java has started")
    assert managed.api.delete(f"{PATH}/{replay}").status_code == 204
    wait_until(lambda: not in_session(process), "it and what it has started are gone")
    words = command(managed, "slow", "--engine", "spark")
    with subprocess.Popen(words, stderr=subprocess.DEVNULL, start_new_session=True) as running:
        wait_until(lambda: len(in_session(running.pid)) > 1, "Java has started")
        running.send_signal(signal.SIGINT)
        assert running.wait(100) != 0
    wait_until(lambda: not in_session(running.pid), "what it has started is gone")


def test_a_replay_ends_with_the_process_of_the_api(managed: ManagedNode) -> None:
    _, process = slow(managed)
    begin = managed.node.log.stat().st_size
    os.kill(management_of(managed), signal.SIGKILL)
    wait_until(lambda: not in_session(process), "the replay and what it has started are gone")
    managed.again(begin)


async def test_an_export_leaves_a_place_and_takes_little_memory_while_it_is_not_read(managed: ManagedNode) -> None:
    asked = {"topic": "large"}
    async with AsyncExitStack() as streams:
        by_key, by_user = [
            await streams.enter_async_context(httpx.AsyncClient(base_url=managed.api.base_url, auth=auth, timeout=60))
            for auth in ((KEY, SECRET), None)
        ]
        login = await by_user.post("/login", json=ADMIN)
        by_user.headers["authorization"] = f"Bearer {login.json()['token']}"
        before = memory_of(management_of(managed))
        begun = [
            api.send(api.build_request("GET", "/heliograph/messages/export", params=asked), stream=True)
            for api in (by_key, by_key, by_key, by_user)
        ]
        *of_key, of_user = await asyncio.gather(*begun)
        for answer in (*of_key, of_user):
            streams.push_async_callback(answer.aclose)
        assert sorted(answer.status_code for answer in of_key) == [200, 503, 503]
        assert of_user.status_code == 200
        assert memory_of(management_of(managed)) - before < 24 << 20
        assert len([line async for line in of_user.aiter_lines()]) == LARGE


def memory_of(pid: int) -> int:
    """The resident memory of a process, in bytes."""
    (line,) = [one for one in Path(f"/proc/{pid}/status").read_text().splitlines() if one.startswith("VmRSS:")]
    return int(line.split()[1]) << 10
