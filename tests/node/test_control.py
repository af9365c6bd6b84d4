"""The control socket of a node: who can use it, what is asked there, and that clients notice nothing."""

import asyncio
import grp
import os
import socket
import stat
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from heliograph.cli.main import main
from heliograph.config.loading import load_config
from heliograph.config.settings import Config
from heliograph.control.proto_v1.broker import BROKER_METRICS, BROKER_STATS
from heliograph.control.proto_v1.node import NODE_STATUS, NodeStatus
from heliograph.node import Node
from heliograph.node.control import ControlGroupError
from heliograph.node.kernel import KernelPart
from heliograph.rpc.client import RpcClient
from heliograph.rpc.conversation import UnreachableError
from heliograph.rpc.methods import RpcError
from support.listening import CONNACK, CONNECT

SETTINGS = (
    'listeners.tcp.default.bind = "127.0.0.1:0"\ndurable_storage { messages.topics = [], flight.enable = false }\n'
)


def config_at(directory: Path, settings: str = "") -> Config:
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / "node.conf"
    file.write_text(SETTINGS + settings)
    return load_config(file, {}, {"node.data_dir": str(directory / "data")})


async def ping(node: Node) -> None:
    """A client connects, is answered, and goes."""
    port = int(node.ready_line().rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(CONNECT)
    assert await reader.readexactly(len(CONNACK)) == CONNACK
    writer.close()
    await writer.wait_closed()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def status_of(path: Path) -> NodeStatus:
    with RpcClient(path) as client:
        return client.ask(NODE_STATUS())


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    node = Node(config_at(tmp_path))
    await node.start()
    yield node
    await node.stop()


async def test_a_node_answers_while_it_runs_and_only_its_user(node: Node, tmp_path: Path) -> None:
    path = tmp_path / "data/control.sock"
    assert mode(path) == 0o600
    assert mode(path.parent) == 0o700
    status = await asyncio.to_thread(status_of, path)
    assert (status.name, status.state, status.pid, status.reasons) == ("heliograph@127.0.0.1", "ready", os.getpid(), [])
    assert any(place.startswith("mqtt tcp://") for place in status.places)
    await node.stop()
    assert not path.exists()
    with pytest.raises(UnreachableError, match="No such file"):
        await asyncio.to_thread(status_of, path)


async def test_the_commands_tell_people_and_programs(
    node: Node, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def ctl(*words: str) -> tuple[int, str, str]:
        code = await asyncio.to_thread(main, ["ctl", *words, "--data-dir", str(tmp_path / "data")])
        return code, *capsys.readouterr()

    code, out, _ = await ctl("status")
    assert (code, out.partition(":")[0]) == (0, "heliograph@127.0.0.1 is ready")
    alarms = node.parts.get(KernelPart).alarms
    alarms.activate("too_hot", "it is too hot", {})
    code, out, _ = await ctl("status", "--ready")
    assert code == 1
    assert "degraded: too_hot: it is too hot" in out
    assert await ctl("status") == (0, out, "")  # it lives: to start it again would not help
    code, out, _ = await ctl("status", "--ready", "--json")
    assert (code, '"state":"degraded"' in out) == (1, True)
    code, out, _ = await ctl("broker", "stats")
    assert code == 0
    assert "connections.open" in out
    code, out, _ = await ctl("broker", "metrics", "--nonzero", "--json")
    assert '{"name":"control.accepted","value":' in out
    assert '"value":0.0,' not in out
    code, out, _ = await ctl("broker")
    assert "sysdescr" in out
    before_the_command = ["ctl", "--data-dir", str(tmp_path / "data"), "--json", "status"]
    assert await asyncio.to_thread(main, before_the_command) == 0
    assert capsys.readouterr().out.startswith("{")
    await node.stop()
    code, _, err = await ctl("status")
    assert code == 3
    assert "no node answers" in err
    assert "--data-dir DIR" in err


async def test_the_numbers_are_those_of_the_log(node: Node, tmp_path: Path) -> None:
    def numbers() -> set[str]:
        with RpcClient(tmp_path / "data/control.sock") as client:
            return {row.name for ask in (BROKER_STATS, BROKER_METRICS) for row in client.rows(ask())}

    assert await asyncio.to_thread(numbers) == set(node.statistics())


async def test_a_group_may_ask_from_the_next_change_on(node: Node, tmp_path: Path) -> None:
    group = grp.getgrgid(os.getgid()).gr_name
    data = tmp_path / "data"
    assert await node.reload(config_at(tmp_path, f'node.control_group = "{group}"'))
    assert (mode(data / "control.sock"), mode(data)) == (0o660, 0o710)
    assert not await node.reload(config_at(tmp_path, 'node.control_group = "no such group"'))
    assert mode(data / "control.sock") == 0o660
    assert await node.reload(config_at(tmp_path, ""))
    assert (mode(data / "control.sock"), mode(data)) == (0o600, 0o700)


async def test_the_socket_of_a_killed_node_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "data/control.sock"
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    node = Node(config_at(tmp_path))
    await node.start()
    assert (await asyncio.to_thread(status_of, path)).state == "ready"
    await node.stop()


async def test_a_path_that_is_too_long_for_a_socket_is_reached_all_the_same(tmp_path: Path) -> None:
    directory = tmp_path / ("long" * 30)
    node = Node(config_at(directory))
    await node.start()
    assert (await asyncio.to_thread(status_of, directory / "data/control.sock")).state == "ready"
    await node.stop()


async def test_a_socket_that_cannot_be_opened_keeps_no_client_away(tmp_path: Path) -> None:
    (tmp_path / "data/control.sock").mkdir(parents=True)
    node = Node(config_at(tmp_path))
    await node.start()
    await ping(node)
    assert "control.sock" in node.parts.health()["control"]
    assert [alarm.name for alarm in node.parts.get(KernelPart).alarms.active()] == ["control_socket_closed"]
    await node.stop()


async def test_a_node_does_not_start_for_a_group_that_there_is_not(tmp_path: Path) -> None:
    with pytest.raises(ControlGroupError, match="no such group"):
        await Node(config_at(tmp_path, 'node.control_group = "no such group"')).start()


async def test_an_asker_that_is_killed_is_forgotten(node: Node, tmp_path: Path) -> None:
    told = "import sys; from pathlib import Path; from heliograph.rpc.client import RpcClient as C\n"
    told += "c = C(Path(sys.argv[1])); print(c.server, flush=True); sys.stdin.read()"
    command = (sys.executable, "-c", told, str(tmp_path / "data/control.sock"))
    asker = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
    assert asker.stdout is not None
    assert b"heliograph" in await asker.stdout.readline()
    assert node.statistics()["control.connections"] == 1
    asker.kill()
    await asker.wait()
    while node.statistics()["control.connections"]:
        await ping(node)
    assert node.statistics()["control.cut"] == 0


async def test_garbage_on_the_socket_disturbs_no_client(node: Node, tmp_path: Path) -> None:
    for data in (b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 100_000, b"\0\0\0\1\xc1"):
        reader, writer = await asyncio.open_unix_connection(tmp_path / "data/control.sock")
        writer.write(data)
        await ping(node)
        with suppress(ConnectionError):
            while await reader.read(1000):
                pass
        writer.close()
    assert node.statistics()["control.cut"] == 3


async def test_a_node_that_is_asked_stops_at_once(node: Node, tmp_path: Path) -> None:
    client = await asyncio.to_thread(RpcClient, tmp_path / "data/control.sock")
    await node.stop()
    with pytest.raises((UnreachableError, RpcError)):
        await asyncio.to_thread(client.ask, NODE_STATUS())
    client.close()
