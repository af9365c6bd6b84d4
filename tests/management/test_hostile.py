"""Hostile callers of the HTTP API: each is answered in the form of errors or sent away, and no client notices."""

import base64
import json
import os
import resource
import signal
import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from urllib.parse import urlsplit

import httpx
import psutil
import pytest

from heliograph.cli.main import main
from support.managed_clients import Peer, Peers
from support.management import KEY, SECRET, ManagedNode
from support.waiting import wait_until


@pytest.fixture(scope="module")
def managed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManagedNode]:
    """Requests come to a process that they cannot end."""
    directory = tmp_path_factory.mktemp("hostile")
    with ManagedNode(directory, "durable_storage.flight.enable = false", are_programs_copies=False) as node:
        yield node


AUTHORIZATION = f"authorization: Basic {base64.b64encode(f'{KEY}:{SECRET}'.encode()).decode()}\r\n".encode()
JSON = b"content-type: application/json\r\n"
CHUNK = b"100000\r\n" + b"a" * (1 << 20) + b"\r\n"


@pytest.fixture
def peer(managed: ManagedNode) -> Iterator[Peer]:
    with Peers(managed) as peers:
        made = peers.connect("beside")
        made.subscribe("beside", 1)
        yield made
        round_trip(made)


def round_trip(peer: Peer) -> None:
    peer.publish("beside", b"x", 1)
    assert peer.messages(1) == [("beside", b"x")]


def opened(managed: ManagedNode) -> socket.socket:
    parts = urlsplit(managed.url)
    return socket.create_connection((str(parts.hostname), int(parts.port or 0)), 30)


def request(path: bytes, method: bytes = b"GET", headers: bytes = b"", body: bytes = b"") -> bytes:
    begin = method + b" " + path + b" HTTP/1.1\r\nhost: x\r\nconnection: close\r\n"
    return begin + AUTHORIZATION + headers + b"\r\n" + body


def send_all(caller: socket.socket, pieces: Iterable[bytes]) -> None:
    for piece in pieces:
        caller.sendall(piece)


def answer_of(managed: ManagedNode, pieces: Iterable[bytes]) -> tuple[int, bytes]:
    """Status and body of the answer to bytes; the rest of what is sent may find the connection closed."""
    with opened(managed) as caller:
        with suppress(OSError):
            send_all(caller, pieces)
        found = b""
        with suppress(ConnectionResetError):
            while data := caller.recv(1 << 16):
                found += data
    head, _, body = found.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), body


def refused(managed: ManagedNode, *pieces: bytes) -> tuple[int, str]:
    status, body = answer_of(managed, pieces)
    error = json.loads(body)
    assert isinstance(error["message"], str)
    return status, error["code"]


def management(managed: ManagedNode) -> psutil.Process:
    children = psutil.Process(managed.node.pid).children()
    (found,) = [one for one in children if "heliograph.management" in one.cmdline()]
    return found


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
        b"\0" * 300 + b"\r\n\r\n",
        b"GET /status HTTP/9.9\r\n\r\n",
        request(b"/status", b"FROB"),
        request(b"/api/v5/clients/\xff\xfe"),
        request(b"/api/v5/clients/%ff%fe"),
        request(b"/api/v5/topics/%C3%28"),
        request(b"/api/v5/clients?page=" + b"9" * 5000),
        request(b"/api/v5/clients?" + b"clientid=a&" * 90_000),
        request(b"/api/v5/data/files/..%2f..%2fheliograph.conf"),
        request(b"/api/v5/data/files/%00"),
        request(b"/status", headers=b"x: " + b"a" * (2 << 20) + b"\r\n"),
        request(b"/api/v5/rules", b"POST", JSON + b"content-length: -1\r\n"),
        request(b"/api/v5/rules", b"POST", JSON + b"content-length: 5\r\ncontent-length: 6\r\n", b"[]"),
        request(b"/api/v5/rules", b"POST", JSON + b"content-length: 100000\r\n", b"[" * 100_000),
        request(b"/api/v5/rule_test", b"POST", JSON + b"content-length: 1800\r\n", b"[" * 900 + b"]" * 900),
        request(b"/api/v5/publish", b"POST", JSON + b"content-length: 3\r\n", b"NaN"),
        request(b"/api/v5/publish", b"POST", JSON + b"content-length: 8\r\n", b'"\\ud800"'),
        request(b"/api/v5/publish", b"POST", b"content-type: text/plain\r\ncontent-length: 2\r\n", b"{}"),
        request(b"/api/v5/publish", b"POST", b"content-type: multipart/form-data\r\ncontent-length: 2\r\n", b"{}"),
    ],
)
def test_what_is_no_request_is_answered_as_an_error(managed: ManagedNode, sent: bytes) -> None:
    assert refused(managed, sent) == (400, "BAD_REQUEST")


@pytest.mark.parametrize("path", [b"/api/v5/../../etc/passwd", b"/%2e%2e/etc", b"//status", b"/api/v5//clients", b"*"])
def test_a_path_leads_nowhere_else(managed: ManagedNode, path: bytes) -> None:
    assert refused(managed, request(path)) == (404, "NOT_FOUND")


@pytest.mark.parametrize("name", [b"%2F", b"..%2f..", b"%00", b"a" * 60_000])
def test_a_name_is_a_name(managed: ManagedNode, name: bytes) -> None:
    assert refused(managed, request(b"/api/v5/clients/" + name)) == (404, "CLIENTID_NOT_FOUND")


def test_bodies_have_an_end(managed: ManagedNode, peer: Peer) -> None:
    begin = request(b"/api/v5/rules", b"POST", JSON + b"content-length: 1073741825\r\n")
    assert refused(managed, begin) == (413, "EXCEED_LIMIT")
    begin = request(b"/api/v5/rules", b"POST", JSON + b"transfer-encoding: chunked\r\n")
    assert refused(managed, begin, *[CHUNK] * 1024) == (413, "EXCEED_LIMIT")
    unknown = b"POST /api/v5/rules HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    # The node closes the connection behind its answer, and reads no more.
    with opened(managed) as caller, pytest.raises((BrokenPipeError, ConnectionResetError)):
        send_all(caller, (unknown, *[CHUNK] * 1024))


def test_callers_that_never_end_what_they_say_keep_nobody_waiting(managed: ManagedNode, peer: Peer) -> None:
    callers = [opened(managed) for _ in range(1000)]
    try:
        for caller in callers[:500]:
            caller.sendall(b"GET /sta")
        for caller in callers[500:]:
            caller.sendall(b"POST /api/v5/rules HTTP/1.1\r\nhost: x\r\nx: ")
        round_trip(peer)
        assert httpx.get(f"{managed.url}/status", timeout=30).status_code == 200
        assert managed.api.get("/clients").status_code == 200
    finally:
        for caller in callers:
            caller.close()


def test_requests_beyond_what_is_answered_at_once_are_refused(managed: ManagedNode, peer: Peer) -> None:
    begin = request(b"/api/v5/publish", b"POST", JSON + b"content-length: 9\r\n")
    callers = [opened(managed) for _ in range(210)]
    try:
        for caller in callers:
            caller.sendall(begin)
        status, code = 0, ""
        while status != 503:
            status, code = refused(managed, request(b"/api/v5/clients"))
        assert code == "SERVICE_UNAVAILABLE"
        round_trip(peer)
    finally:
        for caller in callers:
            caller.close()
    wait_until(lambda: managed.api.get("/clients").status_code == 200, "there is room again")


def test_a_full_disk_ends_nothing(managed: ManagedNode, peer: Peer) -> None:
    assert main(["ctl", "--data-dir", str(managed.data_dir), "admins", "add", "full", "Full-disk-1"]) == 0
    wait_until(lambda: managed.api.get("/monitor").raise_for_status().json(), "there is a sample to forget")
    process = management(managed)
    limits = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (0, limits[1]))  # as on a full disk, each write fails
    try:
        with managed.client() as anyone:  # a login holds for as long as the process runs
            answer = anyone.post("/login", json={"username": "full", "password": "Full-disk-1"})
            bearer = {"authorization": f"Bearer {answer.json()['token']}"}
            assert anyone.get("/users", headers=bearer).status_code == 200
        assert managed.api.get("/clients").status_code == 200
        assert {"code", "message"} <= managed.api.delete("/monitor").json().keys()
        round_trip(peer)
        assert process.is_running()
    finally:
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, limits)


def test_kill_at_any_moment_reaches_no_client(managed: ManagedNode, peer: Peer) -> None:
    begin = managed.node.log.stat().st_size
    is_over = threading.Event()

    def call() -> None:
        with httpx.Client(base_url=f"{managed.url}/api/v5", auth=(KEY, SECRET)) as client:
            while not is_over.is_set():
                try:
                    client.post("/publish", json={"topic": "beside/other", "payload": "x", "qos": 1})
                    client.get("/clients")
                except httpx.TransportError:
                    return

    callers = [threading.Thread(target=call) for _ in range(4)]
    for caller in callers:
        caller.start()
    round_trip(peer)
    os.kill(management(managed).pid, signal.SIGKILL)
    round_trip(peer)
    is_over.set()
    for caller in callers:
        caller.join()
    managed.again(begin)
    assert managed.api.get("/clients").status_code == 200
