"""Targets that take nothing, each in its own way, on one node: what the node says of each, and what arrives later."""

import asyncio
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from ssl import PROTOCOL_TLS_SERVER, SSLContext
from typing import Any, Final

import pytest

from support.certificates import Authority
from support.managed_clients import connected
from support.management import ManagedNode
from support.mosquitto import free_port
from support.postgresql import Postgresql, postgresql
from support.raw_server import listening, read_request
from support.waiting import wait_until

pytestmark = [pytest.mark.service, pytest.mark.slow, pytest.mark.timeout(300)]

SETTINGS: Final = """
durable_storage { messages.topics = ["only/this"], flight.bind = "127.0.0.1:0" }
mqtt.max_packet_size = 32MB
actions.engine = local
"""
OK: Final = b"HTTP/1.1 204 No Content\r\n\r\n"
COUNT: Final = 3
LONG: Final = 10_000_000


@dataclass
class BadWebServer:
    """A web service whose answer may be bad.

    Attributes:
        answer: What it sends; None is nothing, for as long as the client waits.
        context: For TLS.
        taken: The bodies that it has taken.
    """

    answer: bytes | None = OK
    context: SSLContext | None = None
    taken: list[bytes] = field(default_factory=list)
    is_open: threading.Event = field(default_factory=threading.Event)

    def serve(self, plain: socket.socket) -> None:
        """Take one request, or several while it is good."""
        stream = self.context.wrap_socket(plain, server_side=True) if self.context is not None else plain
        with stream, suppress(OSError):
            while body := read_request(stream)[1]:
                answer = self.answer
                if answer is None:
                    self.is_open.wait(30)
                    return
                stream.sendall(answer)
                if answer != OK:
                    return
                self.taken.append(body)
                if self.context is not None:  # so that the next one is shown the certificate of then
                    return


BAD: Final[dict[str, tuple[bytes | None, str]]] = {
    "fails": (b"HTTP/1.1 500 Oh\r\nContent-Length: 3\r\n\r\nbad", r"answered 500 Oh: bad"),
    "busy": (b"HTTP/1.1 429 No\r\nRetry-After: 3600\r\nContent-Length: 0\r\n\r\n", r"answered 429 No"),
    "half": (b"HTTP/1.1 200 OK\r\nContent-Le", r"without an answer"),
    "silent": (None, r"timed out|did not come in time"),
    "closes": (b"", r"without an answer|reset by peer"),
}


def showing(certificate: Path) -> SSLContext:
    """TLS of a server with a certificate."""
    context = SSLContext(PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


@dataclass
class BadWorld:
    """A node with an action for each target."""

    managed: ManagedNode
    database: Postgresql
    servers: dict[str, BadWebServer]
    away_port: int
    authority: Authority
    log: Path

    def shown(self, action: str) -> dict[str, Any]:
        """An action as the API shows it."""
        found: dict[str, Any] = self.managed.api.get(f"/actions/{action}").json()
        return found

    def wait_for(self, action: str, status: str, reason: str = "") -> None:
        """Wait until it has a status, for a reason."""

        def is_so() -> bool:
            one = self.shown(action)
            return one["status"] == status and bool(re.search(reason, one["status_reason"]))

        wait_until(is_so, lambda: f"{self.shown(action)}\n{self.log.read_text()[-3000:]}")

    def start(self, action: str) -> None:
        """Do not wait for the pause."""
        assert self.managed.api.post(f"/actions/{action}/start").status_code == 204

    def alarms(self) -> set[str]:
        """The names of those that are active."""
        return {one["name"] for one in self.managed.api.get("/alarms").json()["data"]}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BadWorld]:
    directory = tmp_path_factory.mktemp("bad")
    with ExitStack() as stack:
        database = stack.enter_context(postgresql())
        database.query("CREATE TABLE obs (n int)")
        (directory / "theirs").mkdir()
        authority, other = Authority(directory), Authority(directory / "theirs")
        servers = {name: BadWebServer(answer) for name, (answer, _) in BAD.items()}
        servers |= {"good": BadWebServer(), "cert": BadWebServer(context=showing(other.server()))}
        ports = {name: stack.enter_context(listening(server.serve)) for name, server in servers.items()}
        ports["away"] = free_port()
        settings = [SETTINGS]
        for name, port in ports.items():
            connector: dict[str, Any] = {"url": f"http://127.0.0.1:{port}", "pool_size": 1}
            if name == "cert":
                connector["url"] = f"https://127.0.0.1:{port}"
                connector["ssl"] = {"enable": True, "cacertfile": str(authority.cafile), "verify": "verify_peer"}
            parameters = {"body": "${payload}", "max_retries": 0, "request_timeout": "500ms"}
            action = {
                "connector": name,
                "parameters": parameters | ({"request_timeout": "30s"} if name == "good" else {}),
            }
            settings += (f"connectors.http.{name} {json.dumps(connector)}", f"actions.http.{name} {json.dumps(action)}")
        place = {
            "server": f"127.0.0.1:{database.port}",
            "database": database.database,
            "username": database.user,
            "password": database.password,
        }
        sql = "INSERT INTO obs (n, added) VALUES (${payload.n}, ${payload.n})"
        action = {"connector": "column", "parameters": {"sql": sql}}
        settings += (f"connectors.pgsql.column {json.dumps(place)}", f"actions.pgsql.column {json.dumps(action)}")
        names = [*(f"http:{name}" for name in ports), "pgsql:column"]
        settings.append(f"""rule_engine.rules.all {{ sql = "SELECT * FROM 'in/#'", actions = {json.dumps(names)} }}""")
        rule = """rule_engine.rules.long { sql = "SELECT * FROM 'long/#'", actions = ["http:good"] }"""
        managed = stack.enter_context(ManagedNode(directory, "\n".join([*settings, rule])))
        log = directory / "data" / "pipeline" / "runner" / "runner.log"
        yield BadWorld(managed, database, servers, ports["away"], authority, log)
        for server in servers.values():
            server.is_open.set()


def publish(world: BadWorld, topic: str, *payloads: bytes) -> None:
    async def run() -> None:
        async with connected(world.managed, "device") as client:
            for payload in payloads:
                await client.publish(topic, payload, 1)

    asyncio.run(run())


def rows_of(server: BadWebServer) -> list[int]:
    return [json.loads(body)["n"] for body in server.taken]


def has_all(server: BadWebServer) -> bool:
    return rows_of(server) == list(range(COUNT))


def test_each_is_seen_for_what_it_is_and_slows_no_other(world: BadWorld) -> None:
    begin = time.monotonic()
    publish(world, "in/1", *(b'{"n": %d}' % number for number in range(COUNT)))
    wait_until(lambda: has_all(world.servers["good"]), lambda: world.log.read_text()[-3000:])
    took_s = time.monotonic() - begin
    for name, (_, reason) in BAD.items():
        world.wait_for(f"http:{name}", "disconnected", reason)
    world.wait_for("http:away", "disconnected", "refused")
    world.wait_for("http:cert", "disconnected", "certificate verify failed")
    world.wait_for("pgsql:column", "disconnected", 'column "added" of relation "obs" does not exist')
    world.wait_for("http:good", "connected")
    bad = [*(f"http:{name}" for name in (*BAD, "away", "cert")), "pgsql:column"]
    wait_until(lambda: {f"pipeline_query_failing/{name}" for name in bad} <= world.alarms(), "each has its alarm")
    assert "pipeline_query_failing/http:good" not in world.alarms()
    # While all others fail, it takes no longer than when they had not begun to, on a machine that is busy.
    begin = time.monotonic()
    publish(world, "long/1", b'{"n": %d}' % COUNT)
    wait_until(lambda: len(world.servers["good"].taken) > COUNT, "a row comes while others fail")
    assert time.monotonic() - begin < took_s + 10


def test_a_long_row_arrives_as_others_do(world: BadWorld) -> None:
    good = world.servers["good"]
    before = len(good.taken)
    publish(world, "long/1", b"x" * LONG, b"after")
    wait_until(lambda: len(good.taken) == before + 2, lambda: world.log.read_text()[-3000:])
    assert [len(body) for body in good.taken[before:]] == [LONG, 5]


def test_nothing_is_lost_when_they_take_rows_again(world: BadWorld) -> None:
    for name in BAD:
        world.servers[name].answer = OK
        world.servers[name].is_open.set()
    world.servers["cert"].context = showing(world.authority.server())
    world.database.query("ALTER TABLE obs ADD COLUMN added int")
    back = BadWebServer()
    with listening(back.serve, world.away_port):
        names: dict[str, Callable[[], object]] = {f"http:{name}": partial(has_all, world.servers[name]) for name in BAD}
        names |= {"http:away": partial(has_all, back), "http:cert": partial(has_all, world.servers["cert"])}
        for action, arrived in names.items():
            world.start(action)
            wait_until(arrived, lambda: world.log.read_text()[-3000:])
        world.start("pgsql:column")
        wait_until(
            lambda: len(world.database.query("SELECT 1 FROM obs")) >= COUNT, lambda: world.log.read_text()[-3000:]
        )
        assert world.database.query("SELECT n, added FROM obs ORDER BY n") == [(n, n) for n in range(COUNT)]
        for action in (*names, "pgsql:column"):
            world.wait_for(action, "connected")
        wait_until(lambda: not any(name.startswith("pipeline_query") for name in world.alarms()), "all alarms end")


def test_a_certificate_that_changes_stops_the_action_until_it_is_trusted(world: BadWorld, tmp_path: Path) -> None:
    server, other = world.servers["cert"], Authority(tmp_path)
    server.context = showing(other.server())
    publish(world, "in/1", b'{"n": %d}' % COUNT)
    world.wait_for("http:cert", "disconnected", "certificate verify failed")
    server.context = showing(world.authority.server(file="renewed.pem"))
    world.start("http:cert")
    wait_until(lambda: rows_of(server) == list(range(COUNT + 1)), lambda: world.log.read_text()[-3000:])
