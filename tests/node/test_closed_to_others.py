"""What was published is for the node's user only: its files, and the reader that gives everything out."""

import json
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path

import aiomqtt
import pytest
from pyarrow import flight

from heliograph.cli.main import main
from heliograph.pipeline.datasource.client import StorageClient
from heliograph.pipeline.errors import ReaderUnavailableError
from heliograph.storage.reader import local_token
from heliograph.storage.reader.listening_sockets import ListeningSocket
from support.process import NodeProcess

pytestmark = [pytest.mark.service, pytest.mark.slow]

SETTINGS = "durable_sessions.enable = true\nretainer { enable = true, backend.storage_type = disc }"


async def publish(node: NodeProcess) -> None:
    async with aiomqtt.Client("127.0.0.1", node.port) as client:
        await client.publish("t/1", b"private", qos=1, retain=True)


def open_to_others(data_dir: Path) -> list[Path]:
    """What somebody else may do anything with."""
    found = []
    for path in (data_dir, *data_dir.rglob("*")):
        with suppress(FileNotFoundError):  # a node that runs removes files
            mode = path.lstat().st_mode
            if stat.S_IMODE(mode) & 0o077 and not stat.S_ISLNK(mode):
                found.append(path)
    return found


async def test_the_data_directory_is_for_its_user_only_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with NodeProcess(tmp_path, SETTINGS, reader=True) as node:
            await publish(node)
            assert open_to_others(node.data_dir) == []
            assert stat.S_IMODE((node.data_dir / "flight_token").stat().st_mode) == 0o600
            assert node.stop() == 0
        for path in (tmp_path / "data", *(tmp_path / "data/storage").rglob("*")):
            path.chmod(0o777 if path.is_dir() else 0o666)
        with NodeProcess(tmp_path, SETTINGS, reader=True) as node:
            assert open_to_others(node.data_dir) == []
            assert node.stop() == 0
        assert open_to_others(tmp_path / "data") == []
    finally:
        os.umask(before)


async def test_the_reader_asks_for_the_token_that_lies_in_the_data_directory(tmp_path: Path) -> None:
    with NodeProcess(tmp_path, SETTINGS, reader=True) as node:
        await publish(node)
        stranger = flight.FlightClient(f"grpc://127.0.0.1:{node.flight_port}")
        action = flight.Action("get_streams", json.dumps({"database": "messages", "topics": ["#"]}).encode())
        with pytest.raises(flight.FlightUnauthenticatedError, match="flight_token"):
            list(stranger.do_action(action))
        token = (node.data_dir / "flight_token").read_text().strip()
        options = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {token}".encode())])
        assert list(stranger.do_action(action, options))
        with StorageClient(f"127.0.0.1:{node.flight_port}") as friend:
            assert friend.info("messages")["messages"] == 1
        assert node.stop() == 0
    with NodeProcess(tmp_path, SETTINGS, reader=True) as node:  # it stays
        assert (node.data_dir / "flight_token").read_text().strip() == token


@pytest.fixture
def noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, str, Path]]:
    """The port of something of this user that listens on 127.0.0.1, the token noted for it, and the data directory."""
    monkeypatch.setattr(local_token, "TEMPORARY", tmp_path)
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    token = local_token.read_or_make_token(data_dir)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        local_token.announce(f"127.0.0.1:{port}", data_dir)
        yield port, token, data_dir


def test_a_note_that_somebody_else_may_have_written_is_not_read(tmp_path: Path, noted: tuple[int, str, Path]) -> None:
    port, token, data_dir = noted
    assert local_token.find_token(f"grpc://127.0.0.1:{port}") == token
    (notes,) = tmp_path.glob("heliograph-*")
    notes.chmod(0o777)
    assert local_token.find_token(f"127.0.0.1:{port}") is None
    with pytest.raises(PermissionError):
        local_token.announce(f"127.0.0.1:{port}", data_dir)


def test_a_token_is_for_the_address_that_it_was_noted_for(noted: tuple[int, str, Path]) -> None:
    port, token, data_dir = noted
    assert local_token.find_token(f"localhost:{port}") == token
    others = ["localhost-db.example.org", "127.db.example.org", "127.0.0.2", "[::1]", "0.0.0.0", "db.example.org", ""]
    assert [host for host in others if local_token.find_token(f"{host}:{port}")] == []
    local_token.withdraw(f"127.0.0.1:{port}", data_dir)
    assert local_token.find_token(f"127.0.0.1:{port}") is None


@pytest.mark.parametrize("listener", ["nothing", "another user", "another user beside us"])
def test_a_token_is_not_for_another_user_at_the_port(
    monkeypatch: pytest.MonkeyPatch, noted: tuple[int, str, Path], listener: str
) -> None:
    port, token, _ = noted
    ours = ListeningSocket(ip_address("127.0.0.1"), port, os.getuid())
    theirs = ListeningSocket(ip_address("0.0.0.0"), port, os.getuid() + 1)
    listening = [ours]
    monkeypatch.setattr(local_token, "listening_sockets", lambda: listening)
    assert local_token.find_token(f"127.0.0.1:{port}") == token
    listening = {"nothing": [], "another user": [theirs], "another user beside us": [ours, theirs]}[listener]
    assert local_token.find_token(f"127.0.0.1:{port}") is None


class Answering(flight.FlightServerBase):  # type: ignore[misc]  # pyarrow has no types
    """A reader that answers each request with nothing, and counts them."""

    asked = 0

    def do_action(self, context: flight.ServerCallContext, action: flight.Action) -> list[flight.Result]:
        self.asked += 1
        return [flight.Result(b"{}")]


def test_a_client_that_had_the_token_does_not_send_it_to_another_user_who_took_the_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_token, "TEMPORARY", tmp_path)
    local_token.read_or_make_token(tmp_path)
    with Answering("grpc+tcp://127.0.0.1:0") as reader:
        local_token.announce(f"127.0.0.1:{reader.port}", tmp_path)
        with StorageClient(f"127.0.0.1:{reader.port}") as client:
            assert client.info() == {}
            theirs = ListeningSocket(ip_address("127.0.0.1"), reader.port, os.getuid() + 1)
            monkeypatch.setattr(local_token, "listening_sockets", lambda: [theirs])
            with pytest.raises(ReaderUnavailableError, match="another user"):
                client.info()
        assert reader.asked == 1


@pytest.mark.parametrize("origins", [[], ["--origins"]])
def test_conf_show_prints_no_secrets(tmp_path: Path, capsys: pytest.CaptureFixture[str], origins: list[str]) -> None:
    file = tmp_path / "heliograph.conf"
    file.write_text(
        """
        durable_storage.flight { require_token = true, tokens = [{ name = ops, token = "sixteen-or-more-secret" }] }
        schema_registry.external.other { auth { username = u, password = "sixteen-or-more-secret" } }
        schema_registry.external.digits { auth { username = u, password = 8172635405162738 } }
        schema_registry.external.by_url { url = "http://u:8172635405162738@127.0.0.1:8081/x@y" }
        schema_registry.schemas.s.parameters.headers { "x-api-key" = "8172635405162738", X-Custom = [8172635405162738] }
        other { api-key = 8172635405162738, "X-API-Key" = "8172635405162738", authorization { no_match = deny } }
        """
    )
    assert main(["conf", "show", str(file), *origins]) == 0
    said = capsys.readouterr().out
    assert "sixteen-or-more-secret" not in said
    assert "8172635405162738" not in said
    assert "******" in said
    assert "http://******@127.0.0.1:8081/x@y" in said
    for shown in ("ops", "require_token", "true", "deny"):
        assert shown in said


def test_a_reader_with_tokens_of_its_own_makes_none(tmp_path: Path) -> None:
    tokens = 'durable_storage.flight.tokens = [{ token = "sixteen-or-more-secret" }]'
    with NodeProcess(tmp_path, tokens, reader=True) as node:
        assert not (node.data_dir / "flight_token").exists()


@pytest.mark.parametrize("tokens", ["", 'tokens = [{ token = "sixteen-or-more-secret" }]'])
def test_a_reader_that_became_open_serves_clients_that_found_the_token_of_before(tmp_path: Path, tokens: str) -> None:
    with NodeProcess(tmp_path, reader=True) as node:
        token = (node.data_dir / "flight_token").read_text().strip()
        assert node.stop() == 0
    with NodeProcess(tmp_path, f"durable_storage.flight {{ require_token = false\n{tokens} }}", reader=True) as node:
        endpoint = f"127.0.0.1:{node.flight_port}"
        assert local_token.find_token(endpoint) is None
        for sent in (None, token):
            with StorageClient(endpoint, token=sent) as client:
                assert client.info()["databases"] is not None
