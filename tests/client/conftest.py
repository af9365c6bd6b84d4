"""Brokers for the commands `publish` and `subscribe`: a node, and a mosquitto."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.certificates import Authority
from support.mosquitto import free_port, mosquitto
from support.process import NodeProcess


@dataclass(frozen=True)
class Ports:
    """Where a broker listens, and who has signed its certificate."""

    tcp: int
    tls: int
    ws: int
    wss: int
    cafile: Path

    def options(self, transport: str) -> list[str]:
        """The options with which a client of ours gets there."""
        port = {"tcp": self.tcp, "tls": self.tls, "ws": self.ws, "wss": self.wss}[transport]
        trust = ["--cafile", str(self.cafile)] if transport in ("tls", "wss") else []
        return ["-h", "127.0.0.1", "-p", str(port), *trust, *(["--ws"] if transport in ("ws", "wss") else [])]


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ports]:
    """A node with a listener for each transport, which bans the client `mallory` and takes 64 KB at most."""
    folder = tmp_path_factory.mktemp("node")
    authority = Authority(folder)
    certificate = authority.server()
    bans = folder / "bans.csv"
    bans.write_text("as,who,reason,by,at,until\nclientid,mallory,no reason,admin,,\n")
    settings = f"""
        banned.bootstrap_file = "{bans}"
        mqtt.max_packet_size = 64KB
        mqtt.max_inflight = 5
        mqtt.keepalive_multiplier = 10
        listeners.ssl.default {{ bind = "127.0.0.1:0", ssl_options.certfile = "{certificate}" }}
        listeners.ws.default.bind = "127.0.0.1:0"
        listeners.wss.default {{ bind = "127.0.0.1:0", ssl_options.certfile = "{certificate}" }}
    """
    with NodeProcess(folder, settings) as process:
        ports = dict(re.findall(r"(ssl|ws|wss)://127\.0\.0\.1:(\d+)", process.ready_line))
        tls, ws, wss = (int(ports[kind]) for kind in ("ssl", "ws", "wss"))
        yield Ports(process.port, tls, ws, wss, authority.cafile)
        assert process.stop() == 0, process.log.read_text()


@pytest.fixture(scope="session")
def other_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ports]:
    """A mosquitto with a listener for each transport."""
    folder = tmp_path_factory.mktemp("mosquitto")
    authority = Authority(folder)
    certificate = authority.server()
    secured = f"certfile {certificate}\nkeyfile {certificate}\n"
    tcp, tls, ws, wss = (free_port() for _ in range(4))
    listeners = (
        f"listener {tcp} 127.0.0.1\nlistener {tls} 127.0.0.1\n{secured}"
        f"listener {ws} 127.0.0.1\nprotocol websockets\nlistener {wss} 127.0.0.1\nprotocol websockets\n{secured}"
    )
    with mosquitto(folder, listeners):
        yield Ports(tcp, tls, ws, wss, authority.cafile)


@pytest.fixture(params=["node", "other_broker"])
def broker(request: pytest.FixtureRequest) -> Ports:
    """Each of the two."""
    ports: Ports = request.getfixturevalue(request.param)
    return ports


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A topic prefix that no other test uses."""
    return re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())
