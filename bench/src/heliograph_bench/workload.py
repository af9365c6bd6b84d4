"""What a run consists of: who publishes where, who subscribes to what, how much and how fast.

No I/O but reading the certificates that an encrypted transport is to trust.
"""

import secrets
import ssl
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Final

from heliograph.mqtt.topic import topic_filter_fault, topic_name_fault
from heliograph.settings.tls import ClientTls
from heliograph_bench import packets
from heliograph_bench.clients import TIMESTAMP_BYTES, Client, Login
from heliograph_bench.endpoint import Endpoint, Transport
from heliograph_bench.latency import Latencies
from heliograph_bench.publisher import Publisher
from heliograph_bench.subscriber import Receiver

_LEVELS_MAX: Final = 65535
_FLOW_BYTES: Final = 512 * 1024
_FLOWS_BYTES: Final = 16 * 1024 * 1024
VERSIONS: Final = {"3.1.1": packets.V3_1_1, "5": packets.V5}


class Shape(StrEnum):
    PUB = "pub"
    SUB = "sub"
    PAIR = "pair"
    FAN_IN = "fan-in"
    FAN_OUT = "fan-out"
    CONNECT = "connect"


DEFAULT_TOPICS: Final = {
    Shape.PUB: "bench/%i",
    Shape.SUB: "bench/#",
    Shape.PAIR: "bench/%i",
    Shape.FAN_IN: "bench/%i",
    Shape.FAN_OUT: "bench/all",
    Shape.CONNECT: "",
}


class WorkloadError(ValueError):
    """A run that makes no sense, in words for its user."""

    code: ClassVar[str] = "bench_options"


@dataclass(frozen=True)
class Workload:
    """One run.

    Args:
        topic: Topic of each publisher, or filter of each subscriber of a `sub` run: `%i` is the client's number
            (from 1), `%c` its client id.
        count: Messages per publisher; for a `sub` run messages in all. None: no limit.
        duration_s: How long to publish, or to stay subscribed or connected. None: no limit.
        rate: Messages per second and publisher. None: as fast as the broker takes them.
        connect_rate: Connections per second. None: as fast as the broker takes them.
        never_matching: Additional filters per subscriber that match no message.
        outstanding: Messages of QoS 0 without a rate that may be on the way to one subscriber of the run. None:
            as many as half a mebibyte holds, and those of all subscribers 16 MiB. 0: no limit.
        session_expiry_s: How long the sessions of subscribers outlive their connections; with any, one that is there
            already is resumed (name it by `clientid_prefix`).
        drain_s: How long to wait without progress for messages that are still missing.
        precise: Publish each message of a `rate` when it is due, by busy waiting, and not those of a millisecond
            together.
    """

    shape: Shape
    host: str = "127.0.0.1"
    port: int = 1883
    publishers: int = 0
    subscribers: int = 0
    idle: int = 0
    topic: str = "bench/%i"
    count: int | None = None
    duration_s: float | None = None
    rate: float | None = None
    payload_bytes: int = 64
    qos: int = 0
    window: int = 64
    retain: bool = False
    version: int = packets.V5
    keepalive_s: int = 60
    username: str | None = None
    password: str | None = None
    clientid_prefix: str = field(default_factory=lambda: f"bench-{secrets.token_hex(3)}")
    connect_rate: float | None = None
    connect_timeout_s: float = 10.0
    never_matching: int = 0
    session_expiry_s: int = 0
    drain_s: float = 3.0
    outstanding: int | None = None
    precise: bool = False
    transport: Transport = Transport.TCP
    cafile: str | None = None
    insecure: bool = False
    ws_path: str = "/mqtt"

    def __post_init__(self) -> None:
        if self.payload_bytes < TIMESTAMP_BYTES:
            raise WorkloadError(
                f"--size {self.payload_bytes}: a payload begins with its 8-byte timestamp, so the least size is 8"
            )
        if self.shape is Shape.PAIR and self.publishers != self.subscribers:
            raise WorkloadError("a pair run has as many publishers as subscribers")
        if self.publishers and (fault := topic_name_fault(self._fill("pub", 1), _LEVELS_MAX)):
            raise WorkloadError(f"--topic {self.topic}: {fault}")
        if self.subscribers and (fault := topic_filter_fault(self._filter(1), _LEVELS_MAX)):
            raise WorkloadError(f"--topic {self.topic}: {fault}")
        if self.precise and not self.rate:
            raise WorkloadError("--precise is about when messages are due, so it needs --rate")
        if not self.ws_path.startswith("/") or not self.ws_path.isascii() or not self.ws_path.isprintable():
            raise WorkloadError(f"--ws-path {self.ws_path}: a path such as /mqtt is expected")

    def endpoint(self) -> Endpoint:
        """Where the clients connect to."""
        tls: ssl.SSLContext | None = None
        if self.transport.encrypted:
            try:
                tls = ClientTls(self.cafile or "", verify=not self.insecure).context()
            except OSError as error:
                raise WorkloadError(f"--cafile {self.cafile}: {error.strerror or error}") from error
        return Endpoint(self.host, self.port, tls, self.ws_path if self.transport.framed else None)

    def build(self, latencies: Latencies) -> tuple[list[Receiver], list[Publisher], list[Client]]:
        """The clients of the run: subscribers (to be connected first), publishers and idle ones."""
        return (
            [self._subscriber(number, latencies) for number in range(1, self.subscribers + 1)],
            [self._publisher(number, latencies) for number in range(1, self.publishers + 1)],
            [Client(self._login("idle", number)) for number in range(1, self.idle + 1)],
        )

    @property
    def receivers(self) -> int:
        """How many subscribers of the run get each message."""
        return min(self.subscribers, 1) if self.shape is Shape.PAIR else self.subscribers

    def flow_limit(self, packet_bytes: int) -> int:
        """How many messages may be on the way to one subscriber; 0 if acknowledgements or a rate are their limit."""
        if self.qos or self.rate or not self.publishers or not self.subscribers:
            return 0
        if self.outstanding is not None:
            return self.outstanding
        return max(min(_FLOW_BYTES, _FLOWS_BYTES // self.subscribers) // packet_bytes, 1)

    def expected(self, sent: int) -> int | None:
        """How many messages the subscribers get together when `sent` were published; None if only others know."""
        if not self.publishers or not self.subscribers:
            return None
        return sent * self.receivers

    def _publisher(self, number: int, latencies: Latencies) -> Publisher:
        topic = self._fill("pub", number)
        login = self._login("pub", number)
        of_acknowledgements = latencies if self.shape is Shape.PUB and self.qos else None
        return Publisher(login, topic, self.payload_bytes, self.qos, self.window, self.retain, of_acknowledgements)

    def _subscriber(self, number: int, latencies: Latencies) -> Receiver:
        extra = [f"never/{number}/+/{k}/#" for k in range(self.never_matching)]
        return Receiver(self._login("sub", number), [self._filter(number), *extra], self.qos, latencies)

    def _login(self, role: str, number: int) -> Login:
        expiry_s = self.session_expiry_s if role == "sub" else 0
        clientid = self._clientid(role, number)
        return Login(clientid, self.version, self.keepalive_s, self.username, self.password, expiry_s)

    def _clientid(self, role: str, number: int) -> str:
        return f"{self.clientid_prefix}-{role}-{number}"

    def _fill(self, role: str, number: int) -> str:
        return self.topic.replace("%i", str(number)).replace("%c", self._clientid(role, number))

    def _filter(self, number: int) -> str:
        if self.shape is Shape.SUB:
            return self._fill("sub", number)
        if self.shape is Shape.PAIR:
            return self._fill("pub", number)
        return "/".join("+" if "%i" in level or "%c" in level else level for level in self.topic.split("/"))
