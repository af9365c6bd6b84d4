"""One socket and its client: the asyncio protocols under a run. What the clients say is theirs to decide."""

import asyncio
import ssl
import time
from collections.abc import Callable
from typing import Final, cast

from heliograph.mqtt.errors import ProtocolError
from heliograph_bench import packets
from heliograph_bench.clients import Client
from heliograph_bench.endpoint import Endpoint, without_delay
from heliograph_bench.packets import BrokerRefusedError
from heliograph_bench.publisher import UNLIMITED, Publisher
from heliograph_bench.subscriber import Receiver

# A burst is one write. Larger ones save nothing more per message, and make every message of the burst older.
_BURST_BYTES: Final = 64 * 1024
_BURST_MESSAGES: Final = 1024

# Behind its schedule by more than this, a publisher stamps messages with the time they were due (see `PublisherLink`).
_LATE_US: Final = 2000


def now_us() -> int:
    """The time in microseconds since the epoch: the clock of the payloads, so that other processes can read them."""
    return time.time_ns() // 1000


class ClientLink(asyncio.Protocol):
    """One connection of a run, from its opening to its loss; owned by the run.

    Args:
        on_failure: Called once, with the cause, if the connection is refused, or lost before `close`.
    """

    def __init__(self, client: Client, on_failure: Callable[["ClientLink", str], None]) -> None:
        self.client = client
        self.is_open = False
        self._on_failure = on_failure
        self._failed = False
        self._closing = False
        self._transport: asyncio.Transport  # while `is_open`
        self._ready: asyncio.Future[bool] | None = None
        self._shaking_hands = True
        self._lost: asyncio.Future[None] | None = None

    async def open(self, endpoint: Endpoint, timeout_s: float) -> bool:
        """Connect and go through the handshake; whether the client is ready."""
        place = f"{endpoint.host}:{endpoint.port}"
        loop = asyncio.get_running_loop()
        self._ready = loop.create_future()
        try:
            async with asyncio.timeout(timeout_s):
                await endpoint.connect(self)
                return await self._ready
        except TimeoutError:
            self.fail(f"no answer from {place} within {timeout_s:g} s")
        except OSError as error:
            self.fail(f"cannot connect to {place}: {_why(error)}")
        return False

    def close(self) -> None:
        self._closing = True
        if self.is_open:
            self._transport.write(packets.DISCONNECT_PACKET)
            self._transport.close()

    def abort(self) -> None:
        if self.is_open:
            self._transport.abort()

    async def closed(self) -> None:
        if self._lost is not None:
            await self._lost

    def ping(self) -> None:
        if self.is_open:
            self._transport.write(packets.PINGREQ_PACKET)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        wire = cast(asyncio.Transport, transport)  # uvloop's does not inherit from it
        self._transport = wire
        self._lost = asyncio.get_running_loop().create_future()
        self.is_open = True
        without_delay(wire)
        wire.set_write_buffer_limits(high=2 * _BURST_BYTES)
        wire.write(self.client.connect())

    def data_received(self, data: bytes) -> None:
        self._receive(data, time.time_ns() // 1000)

    def _receive(self, data: bytes, now: int) -> None:
        try:
            answer = self.client.receive(data, now)
        except (BrokerRefusedError, ProtocolError) as error:
            self.fail(str(error))
            return
        if answer:
            self._transport.write(answer)
        if self._shaking_hands and self.client.ready:
            self._shaking_hands = False
            self._settle(True)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        if not self._closing:
            farewell = self.client.farewell
            text = f"the broker disconnected the client: {farewell}" if farewell else f"connection lost: {_why(exc)}"
            self.fail(text)
        if self._lost is not None and not self._lost.done():
            self._lost.set_result(None)

    def fail(self, cause: str) -> None:
        if not self._failed:
            self._failed = True
            self._on_failure(self, cause)
        self._settle(False)
        if self.is_open:
            self.is_open = False
            self._transport.abort()

    def _settle(self, ready: bool) -> None:
        if self._ready is not None and not self._ready.done():
            self._ready.set_result(ready)


class Flow:
    """How many messages of a QoS 0 flood are on the way between publishers and subscribers of this run.

    Nothing acknowledges QoS 0, so a flood would fill every buffer up to where the broker must drop, and measure the
    buffers. With a limit it measures what the broker carries. One exists per pair, or one for the whole run where
    every client gets the messages of all.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._on_the_way = 0
        self._waiting: list[PublisherLink] = []

    def admits(self, link: "PublisherLink") -> bool:
        """Whether `link` may publish now; if not, it is pumped when there is room again."""
        if self._on_the_way < self._limit:
            return True
        if link not in self._waiting:
            self._waiting.append(link)
        return False

    def sent(self, count: int) -> None:
        self._on_the_way += count

    def arrived(self, count: int, now: int) -> None:
        self._on_the_way -= count
        if self._waiting and self._on_the_way <= self._limit // 2:
            self._resume(now)

    def give_up(self, now: int) -> None:
        """Nothing arrives any more: the broker dropped the rest, and publishing goes on."""
        self._on_the_way = 0
        self._resume(now)

    def _resume(self, now: int) -> None:
        waiting, self._waiting = self._waiting, []
        for link in waiting:
            link.pump(now)


class SubscriberLink(ClientLink):
    client: Receiver

    def __init__(self, client: Receiver, on_failure: Callable[[ClientLink, str], None], flow: Flow | None) -> None:
        super().__init__(client, on_failure)
        self._flow = flow

    def data_received(self, data: bytes) -> None:
        now = time.time_ns() // 1000
        before = self.client.received
        self._receive(data, now)
        if self._flow is not None:
            self._flow.arrived(self.client.received - before, now)


class PublisherLink(ClientLink):
    """A connection that publishes: as fast as the broker takes it, or by a schedule.

    Message k of a schedule is due k/rate seconds after the start. If the broker or this process holds a publisher up,
    its messages carry the time they were due, so that the wait is part of the measured latency instead of vanishing
    from it ("coordinated omission").
    """

    client: Publisher

    def __init__(
        self,
        client: Publisher,
        on_failure: Callable[[ClientLink, str], None],
        count: int | None,
        rate: float | None,
        flow: Flow | None,
        receivers: int,
    ) -> None:
        super().__init__(client, on_failure)
        self._count = UNLIMITED if count is None else count
        self._interval_us = 1e6 / rate if rate else 0.0
        self._burst = max(1, min(_BURST_BYTES // client.packet_bytes, _BURST_MESSAGES))
        self._flow = flow
        self._receivers = receivers
        self._started_us = 0
        self._stop_us = UNLIMITED
        self._paused = False
        self._scheduled = False
        self._out_of_time = False

    @property
    def finished(self) -> bool:
        return not self.is_open or self._out_of_time or self.client.sent >= self._count

    @property
    def settled(self) -> bool:
        return not self.is_open or self.client.settled

    @property
    def next_due_us(self) -> float:
        return self._started_us + self.client.sent * self._interval_us

    def start(self, started_us: int, duration_s: float | None) -> None:
        self._started_us = started_us
        if duration_s is not None:
            self._stop_us = started_us + int(duration_s * 1e6)
        self.pump(started_us)

    def look_at_the_clock(self, now: int) -> None:
        """Finish if the time is up; a publisher that waits for the broker would not notice."""
        if now >= self._stop_us:
            self._out_of_time = True

    def pump(self, now: int) -> None:
        """Publish what is due and has room; a no-op before the start."""
        client = self.client
        count = min(self._burst, client.room, self._count - client.sent)
        if count <= 0 or self._paused or not self.is_open or not self._started_us:
            return
        if now >= self._stop_us or (self._flow is not None and not self._flow.admits(self)):
            return
        stamp = now
        if self._interval_us:
            due_us = self.next_due_us
            if now < due_us:
                return
            count = min(count, int((now - due_us) / self._interval_us) + 1)
            if now - due_us > _LATE_US:
                stamp = int(due_us)
        self._transport.write(client.publish(count, stamp))
        if self._flow is not None:
            self._flow.sent(count * self._receivers)
        if count == self._burst and not self._scheduled:  # there may be more; let the others have their turn first
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._pump_again)

    def _pump_again(self) -> None:
        self._scheduled = False
        self.pump(now_us())

    def data_received(self, data: bytes) -> None:
        now = time.time_ns() // 1000
        self._receive(data, now)
        if self._started_us:
            self.pump(now)

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self.pump(now_us())


def _why(error: Exception | None) -> str:
    if error is None:
        return "closed by the broker"
    if isinstance(error, ssl.SSLCertVerificationError):
        what = error.verify_message or "it cannot be verified"
        return f"its certificate is not trusted ({what}); name its authority with --cafile, or use --insecure"
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
