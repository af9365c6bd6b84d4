"""What peers that nobody knows yet can make a node remember: nothing. A real node, and thousands of them at once."""

import json
import os
import re
import resource
import signal
import time
from collections.abc import Iterator
from typing import Final

import pytest

from fuzz.engine import resident_bytes
from heliograph.transport.frames import NORMAL_CLOSURE
from security.crowd import WAIT_S, Crowd
from support.certificates import Authority
from support.process import NodeProcess
from support.websocket import frame, goodbye, request

pytestmark = [pytest.mark.service, pytest.mark.slow]

COUNT: Final = 2000
WARM_UP_COUNT: Final = 50
# What a connection may cost while it stands: its socket's state here, a TLS or WebSocket handshake, and its few bytes.
BYTES_EACH_MAX: Final = {"tcp": 6_144, "ws": 12_288, "ssl": 32_768}
# Allocators keep pages, and numbers of the same run differ by a few.
SLACK_BYTES: Final = 8 * 1024 * 1024

CLAIM: Final = b"\x10\xf0\xff\xff\x7f\x00\x04MQTT\x05\x02\x00\x3c"  # a CONNECT of 256 MiB, as far as that goes
CLIENT_HELLO: Final = bytes.fromhex("16030100c8010000c40303") + bytes(20)  # a third of one
HALF_REQUEST: Final = request()[:-2]
WEBSOCKET_CLAIM: Final = frame(CLAIM, length=1 << 40)

SETTINGS: Final = """
durable_storage {{ flight.enable = false, messages.topics = [] }}
log.console.level = info
mqtt {{ idle_timeout = 2s, max_packet_size = 256MB }}
listeners.tcp.default.tcp_options.backlog = 4096
listeners.ws.default {{ bind = "127.0.0.1:0", tcp_options.backlog = 4096 }}
listeners.ssl.default {{ bind = "127.0.0.1:0", tcp_options.backlog = 4096
    ssl_options {{ certfile = "{certificate}", handshake_timeout = 2s }} }}
"""


class Target:
    """A node, what it counts and what it takes."""

    def __init__(self, node: NodeProcess) -> None:
        self._node = node
        ports = re.findall(r"(tcp|ws|ssl)://[^\s,]*?:(\d+)", node.ready_line)
        self.ports = {kind: int(port) for kind, port in ports}
        self.fresh_bytes = 0

    @property
    def resident(self) -> int:
        """Its resident memory."""
        return resident_bytes(self._node.pid)

    def numbers(self) -> dict[str, int]:
        """Every counter that is not 0, as it writes them into its log when it is asked to."""
        count = self._node.log.read_text().count("statistics {")
        os.kill(self._node.pid, signal.SIGUSR1)
        end = time.monotonic() + WAIT_S
        while (text := self._node.log.read_text()).count("statistics {") == count or not text.endswith("\n"):
            assert time.monotonic() < end, text[-500:]
        line = text[text.rindex("statistics {") + len("statistics ") :].splitlines()[0]
        found: dict[str, int] = json.loads(line)
        return found

    def closed_count(self) -> int:
        """How many connections it has closed for a reason that it counts."""
        numbers = self.numbers()
        names = ("connections.idle_timeout", "packets.protocol_errors")
        listeners = [f"listeners.{kind}.default.handshake_" for kind in self.ports]
        return sum(numbers.get(name, 0) for name in names) + sum(
            numbers.get(f"{listener}{what}", 0) for listener in listeners for what in ("failures", "timeouts")
        )

    def attack(self, kind: str, first: bytes, *, trickle: bytes = b"", behind: bytes = b"") -> None:
        """Have a crowd come, say `first`, then `trickle` while it is there.

        Args:
            behind: What each says when it has heard an answer; then it waits for a goodbye, which it does not return.
        """
        counted, peak = self.closed_count(), self.resident

        def look() -> None:
            nonlocal peak
            peak = max(peak, self.resident)

        def meanwhile() -> None:
            look()
            if trickle:
                crowd.say(trickle)

        with Crowd(self.ports[kind], COUNT, first) as crowd:
            if behind:
                crowd.answer(behind, trickle, goodbye(NORMAL_CLOSURE), look)
            else:
                crowd.wait_until_closed(meanwhile)
        self.wait_until_empty()
        assert self.closed_count() - counted == COUNT
        each = (peak - self.fresh_bytes - SLACK_BYTES) / COUNT
        assert each <= BYTES_EACH_MAX[kind], f"{each:.0f} bytes for each of {COUNT} connections"

    def wait_until_empty(self) -> None:
        """Wait until it knows that all are gone."""
        end = time.monotonic() + WAIT_S
        while self.numbers().get("connections.open", 0):
            assert time.monotonic() < end


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = COUNT + 200
    if hard != resource.RLIM_INFINITY and hard < needed:
        pytest.skip(f"{needed} open files are needed, the limit is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))
    directory = tmp_path_factory.mktemp("node")
    certificate = Authority(directory).server()
    with NodeProcess(directory, SETTINGS.format(certificate=certificate), is_copy=False) as node:
        found = Target(node)
        for port in found.ports.values():  # what the first connections cost is paid once
            with Crowd(port, WARM_UP_COUNT):
                pass
        found.wait_until_empty()
        found.fresh_bytes = found.resident
        yield found
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_peers_that_say_nothing(target: Target) -> None:
    target.attack("tcp", b"")


def test_peers_that_claim_256_mib_and_stop(target: Target) -> None:
    target.attack("tcp", CLAIM)


def test_peers_that_claim_256_mib_and_trickle(target: Target) -> None:
    target.attack("tcp", CLAIM, trickle=b"\0")


def test_peers_that_send_garbage(target: Target) -> None:
    target.attack("tcp", b"\x00" * 1000)


def test_peers_that_stop_in_the_middle_of_a_tls_handshake(target: Target) -> None:
    target.attack("ssl", CLIENT_HELLO)


def test_peers_that_speak_no_tls(target: Target) -> None:
    target.attack("ssl", CLAIM)


def test_peers_that_stop_in_the_middle_of_a_websocket_request(target: Target) -> None:
    target.attack("ws", HALF_REQUEST)


def test_peers_that_trickle_a_websocket_request(target: Target) -> None:
    target.attack("ws", HALF_REQUEST, trickle=b"X")


def test_peers_that_ask_for_something_else_than_websocket(target: Target) -> None:
    target.attack("ws", b"GET / HTTP/1.0\r\n\r\n")


def test_peers_whose_websocket_frame_claims_a_terabyte(target: Target) -> None:
    target.attack("ws", request(), behind=WEBSOCKET_CLAIM, trickle=b"\0")
