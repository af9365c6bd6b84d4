"""`heliograph erase`: a device is in no file of a node any more, and everything else of the node goes on."""

import asyncio
import io
import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from paho.mqtt.client import Client as PahoClient
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from pyarrow import parquet

from heliograph.cli.main import main
from heliograph.control.proto_v1.erasure import ErasureMade, ErasureWanted
from heliograph.node.erasures import ErasuresPart
from heliograph.storage.columnar.secondary import reading
from heliograph.storage.erasure.errors import ErasureRefusedError
from heliograph.storage.erasure.messages import erase_messages
from heliograph.storage.erasure.subject import ErasureSubject
from storage.offloading import files_of
from support.process import NodeProcess
from support.running import RunningNode
from support.waiting import wait_until

pytestmark = pytest.mark.service

DEVICE = "dev-4711-mueller"
SETTINGS = """
diagnose.messages.enable = true
authorization.no_match = allow
log.audit.enable = true
durable_storage.messages { generation_interval = 1s, offload { enable = true, target = bucket, after = 0s } }
"""
SESSION = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]  # paho has no types there
SESSION.SessionExpiryInterval = 3600


class Client:
    """A device or a backend with a durable session; owned by the test."""

    def __init__(self, node: NodeProcess, clientid: str, will: str | None = None) -> None:
        self.got: list[str] = []
        self._answers: set[int] = set()
        self._client = PahoClient(CallbackAPIVersion.VERSION2, clientid, protocol=MQTTProtocolVersion.MQTTv5)
        if will is not None:
            self._client.will_set(will, b"gone", qos=1)
        self._client.on_message = lambda client, data, message: self.got.append(message.topic)
        self._client.on_subscribe = lambda client, data, mid, *rest: self._answers.add(mid)
        self._client.connect("127.0.0.1", node.port, properties=SESSION, clean_start=False)
        self._client.loop_start()

    def subscribe(self, topic_filter: str) -> None:
        _, mid = self._client.subscribe(topic_filter, qos=1)
        wait_until(lambda: mid in self._answers, "the subscription is there")

    def publish(self, topic: str, *, retain: bool = False) -> None:
        self._client.publish(topic, f"{topic} payload", qos=1, retain=retain).wait_for_publish(20)

    def leave(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def drop(self) -> None:
        """Have the connection go without DISCONNECT."""
        opened = self._client.socket()
        assert isinstance(opened, socket.socket)
        self._client.loop_stop()
        opened.shutdown(socket.SHUT_RDWR)
        opened.close()


def is_offloaded(node: NodeProcess, count: int) -> bool:
    files = files_of(node.data_dir / "bucket")
    with reading(node.data_dir, "messages") as (_, catalog):
        closed = [one for one in catalog.generations() if one.info.layout_version == 3]
    return len(closed) >= count and bool(files)


def wait_for_all(client: Client, topics: list[str]) -> None:
    wait_until(lambda: len(client.got) >= len(topics), "all is delivered")
    assert client.got == topics


def files_with(folder: Path, text: bytes) -> list[str]:
    found = [str(path) for path in folder.rglob("*") if path.is_file() and text in path.read_bytes()]
    rows = ((str(path), repr(parquet.read_table(path).to_pylist()).encode()) for path in folder.rglob("*.parquet"))
    return found + [path for path, content in rows if text in content]


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["erase", *words])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def erased(node: NodeProcess, capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    code, out, err = run(capsys, *words, "--data-dir", str(node.data_dir), "--json")
    assert (code, err) == (0, "")
    answer: dict[str, Any] = json.loads(out)
    return answer


def use_all_of(node: NodeProcess) -> None:
    """Have a device and others leave something in every kind of store."""
    kicked = Client(node, DEVICE)
    kicked.subscribe("a")
    assert main(["ctl", "clients", "kick", DEVICE, "--data-dir", str(node.data_dir)]) == 0
    kicked.leave()
    backend, device = Client(node, "backend"), Client(node, DEVICE, f"will/{DEVICE}")
    backend.subscribe("fleet/#")
    device.subscribe(f"commands/{DEVICE}/#")
    backend.leave()
    for number in range(5):
        device.publish(f"fleet/{DEVICE}/{number}", retain=True)
    other = Client(node, "other")
    for number in range(5):
        other.publish(f"fleet/other/{number}", retain=True)
    device.publish(f"$delayed/3600/fleet/{DEVICE}/later")
    other.leave()
    wait_until(lambda: is_offloaded(node, 1), "a generation is offloaded")
    device.drop()
    wait_until_away(node)


def wait_until_away(node: NodeProcess) -> None:
    """The end of a connection may reach the node later than what is asked of it next."""

    def is_away() -> bool:
        with redirect_stdout(io.StringIO()) as out:
            assert main(["ctl", "clients", "show", DEVICE, "--json", "--data-dir", str(node.data_dir)]) == 0
        return json.loads(out.getvalue())["connected"] is False

    wait_until(is_away, "its connection has ended")


def wait_until_ways_are_stored(node: NodeProcess) -> None:
    """A way is held in memory until it is finished, and a little longer."""

    def are_stored() -> bool:
        with redirect_stdout(io.StringIO()) as out:
            assert main(["ctl", "broker", "stats", "--json", "--data-dir", str(node.data_dir)]) == 0
        values = {line["name"]: line["value"] for line in map(json.loads, out.getvalue().splitlines())}
        return bool(values["message_ways.held_bytes"] == 0)

    wait_until(are_stored, "the ways of all messages are on the disk")


def leave_a_file_of_an_offload_that_was_cut_off(node: NodeProcess) -> None:
    """Write what the database does not name yet."""
    with reading(node.data_dir, "messages") as (_, catalog):
        current = catalog.generations()[-1].info
        name = f"{catalog.site}-{current.number}-{current.since}.parquet"
    written = next(iter(sorted((node.data_dir / "bucket").rglob("*.parquet"))))
    (written.parent / name).write_bytes(written.read_bytes())


def test_a_device_is_in_no_file_and_others_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with NodeProcess(tmp_path, SETTINGS) as node:
        use_all_of(node)
        capsys.readouterr()
        plan = erased(node, capsys, "--client", DEVICE)  # beside the running node
        assert plan["messages"]["messages"] >= 5
        node.stop()
        leave_a_file_of_an_offload_that_was_cut_off(node)
        assert files_with(node.data_dir, DEVICE.encode())
        done = erased(node, capsys, "--client", DEVICE, "--yes")
        assert done["messages"]["messages"] >= 5
        assert done["offloaded_messages"] >= 5
        assert done["records"]["retained"] == 5
        assert done["records"]["delayed"] == 1
        assert done["records"]["sessions"] >= 2
        assert done["records"]["message_ways"] >= 5
        assert done["audit_lines"] == 1
        assert done["still_named"] == []
        assert files_with(node.data_dir, DEVICE.encode()) == []
        assert run(capsys, "verify", done["record"], "--client", DEVICE, "--data-dir", str(node.data_dir))[0] == 0
        assert run(capsys, "verify", done["record"], "--client", "other", "--data-dir", str(node.data_dir))[0] == 1
        node.start()
        backend = Client(node, "backend")
        wait_until(lambda: len(backend.got) >= 5, "the session gets what it has missed")
        assert backend.got == [f"fleet/other/{number}" for number in range(5)]
        backend.leave()


class Chatter:
    """Another client that publishes as long as this lasts."""

    def __init__(self, node: NodeProcess) -> None:
        self._client = Client(node, "chatter")
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._publish)
        self.topics: list[str] = []

    def __enter__(self) -> "Chatter":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._is_over.set()
        self._thread.join()
        self._client.leave()

    def _publish(self) -> None:
        while not self._is_over.is_set():
            self.topics.append(f"fleet/chatter/{len(self.topics)}")
            self._client.publish(self.topics[-1])


def publish_some(node: NodeProcess, count: int = 5) -> None:
    """Have the device leave a session and messages."""
    device = Client(node, DEVICE)
    device.subscribe(f"commands/{DEVICE}/#")
    for number in range(count):
        device.publish(f"fleet/{DEVICE}/{number}")
        device.publish(f"fleet/retained/{number}", retain=True)
    device.publish(f"$delayed/3600/fleet/{DEVICE}/later")
    device.leave()
    wait_until_away(node)


def test_a_running_node_erases_a_device_and_others_lose_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with NodeProcess(tmp_path, "authorization.no_match = allow") as node:
        away, watcher = Client(node, "away"), Client(node, "watcher")
        for client in (away, watcher):
            client.subscribe("fleet/chatter/#")
        away.leave()
        connected = Client(node, DEVICE)
        code, _, err = run(capsys, "--client", DEVICE, "--yes", "--data-dir", str(node.data_dir))
        assert (code, "[erasure_refused]" in err) == (1, True)
        connected.leave()
        publish_some(node)
        with Chatter(node) as chatter:
            wait_until(lambda: len(chatter.topics) > 20, "others publish")
            done = erased(node, capsys, "--client", DEVICE, "--yes")
            assert files_with(node.data_dir, DEVICE.encode()) == []
            count = len(chatter.topics)
            wait_until(lambda: len(chatter.topics) > count + 20, "others publish afterwards")
        assert done["messages"]["messages"] == 10
        assert done["records"] == {"sessions": 1, "retained": 5, "delayed": 1}
        assert (done["left"], done["still_named"]) == (0, [])
        assert run(capsys, "verify", done["record"], "--client", DEVICE, "--data-dir", str(node.data_dir))[0] == 0
        away = Client(node, "away")
        for client in (away, watcher):
            wait_for_all(client, chatter.topics)
            client.leave()
        node.stop()
        node.start()
        assert files_with(node.data_dir, DEVICE.encode()) == []


async def test_a_second_erasure_is_refused_while_one_is_made(tmp_path: Path) -> None:
    async with RunningNode(tmp_path, 'listeners.tcp.default.bind = "127.0.0.1:0"') as node:
        erasures = node.node.parts.get(ErasuresPart)
        wanted = ErasureWanted(clientid=DEVICE)
        first, second = await asyncio.gather(
            erasures.erase(wanted), erasures.erase(ErasureWanted(topic="a/#")), return_exceptions=True
        )
        assert isinstance(first, ErasureMade), first
        assert isinstance(second, ErasureRefusedError)
        assert "an erasure is being made now" in str(second)
        assert isinstance(await erasures.erase(wanted), ErasureMade)


def test_a_node_that_is_killed_in_the_middle_goes_on_with_the_same_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with NodeProcess(tmp_path, "authorization.no_match = allow") as node:
        away = Client(node, "away")
        away.subscribe("fleet/chatter/#")
        away.leave()
        publish_some(node, 100)
        with Chatter(node) as chatter:
            wait_until(lambda: len(chatter.topics) > 100, "others publish")
        words = ("erase", "--client", DEVICE, "--yes", "--data-dir", str(node.data_dir))
        for is_time in (lambda: closed_generations(node) == 1, lambda: messages_left(node) < 200):
            with ThreadPoolExecutor(1) as pool:
                code = pool.submit(main, words)
                wait_until(is_time, "it has begun to erase")
                node.kill()
                assert code.result() in (0, 1)  # it may have come to its end before
            node.start()
        capsys.readouterr()
        assert erased(node, capsys, "--client", DEVICE, "--yes")["left"] == 0
        assert files_with(node.data_dir, DEVICE.encode()) == []
        away = Client(node, "away")
        wait_for_all(away, chatter.topics)
        away.leave()


def closed_generations(node: NodeProcess) -> int:
    with reading(node.data_dir, "messages") as (_, catalog):
        return sum(one.info.until is not None for one in catalog.generations())


def messages_left(node: NodeProcess) -> int:
    subject = ErasureSubject(clientid=DEVICE)
    return erase_messages(node.data_dir, "messages", subject, set(), is_tried=True).messages


def test_what_a_running_node_cannot_erase_is_counted_and_erased_when_it_is_stopped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with NodeProcess(tmp_path, SETTINGS) as node:
        use_all_of(node)
        wait_until_ways_are_stored(node)
        capsys.readouterr()
        place = ("--client", DEVICE, "--yes", "--json", "--data-dir", str(node.data_dir))
        code, out, _ = run(capsys, *place)
        left = json.loads(out)
        assert (code, left["left"] > 0) == (3, True)
        assert left["left_messages"]["messages"] == left["left_offloaded"] >= 5
        assert left["left_records"]["message_ways"] >= 5
        assert left["left_audit_lines"] == 1
        node.stop()
        assert run(capsys, *place)[0] == 0
        assert files_with(node.data_dir, DEVICE.encode()) == []


def test_all_files_of_the_audit_log_and_dead_letters_are_erased(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "node.lock").touch()
    logs = [tmp_path / name for name in ("audit.log", "audit.log.1", "audit_apart.log", "audit_apart.log.2")]
    lines = [
        {"at": "2026-01-01T00:00:00.000Z", "method": "messages.publish", "args": {"topic": f"t/{name}", "qos": 1}}
        for name in (DEVICE, "other")
    ]
    for log in logs:
        log.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    letters = tmp_path / "pipeline" / "output" / "dead_letters" / "part.parquet"
    letters.parent.mkdir(parents=True)
    at = pa.array([datetime(2026, 1, 1)] * 2, pa.timestamp("us"))
    clients, topics = [DEVICE, "other"], [f"t/{DEVICE}", "t/other"]
    columns = {"cause": ["decode"] * 2, "refused_at": at, "clientid": clients, "topic": topics, "stored_at": at}
    parquet.write_table(pa.table(columns), letters)
    assert run(capsys, "--client", DEVICE, "--data-dir", str(tmp_path))[0] == 0  # the plan changes nothing
    assert len(files_with(tmp_path, DEVICE.encode())) == len(logs) + 2  # the letters by their bytes and by their rows
    code, out, _ = run(capsys, "--client", DEVICE, "--yes", "--json", "--data-dir", str(tmp_path))
    done = json.loads(out)
    assert (code, done["audit_lines"], done["dead_letters"]) == (0, len(logs), 1)
    assert files_with(tmp_path, DEVICE.encode()) == []
    assert parquet.read_table(letters)["clientid"].to_pylist() == ["other"]
    for log in logs:
        first, second = map(json.loads, log.read_text().splitlines())
        assert (first["method"], first["args"], second) == ("messages.publish", {"erased": True}, lines[1])


def test_a_record_that_was_changed_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = ("--data-dir", str(tmp_path))
    (tmp_path / "node.lock").touch()
    code, out, _ = run(capsys, "--topic", "a/#", "--yes", *place)
    file = Path(out.rpartition("record: ")[2].strip())
    assert (code, run(capsys, "verify", str(file), *place)[0]) == (0, 0)
    assert "a/#" not in file.read_text()
    file.write_text(file.read_text().replace('"dead_letters": 0', '"dead_letters": 1'))
    code, _, err = run(capsys, "verify", str(file), *place)
    assert (code, "was changed" in err) == (1, True)


def test_mistakes_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, problem in [
        ((), "one of --client, --topic and --older-than is needed"),
        (("--topic", "a/#/b"), "--topic"),
        (("--older-than", "soon"), "soon"),
        (("verify",), "RECORD"),
    ]:
        with pytest.raises(SystemExit):
            main(["erase", *words, "--data-dir", str(tmp_path)])
        assert problem in capsys.readouterr().err
