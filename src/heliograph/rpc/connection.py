"""One connection of a server: its frames in and out, its requests in flight, and what ends it."""

import asyncio
import os
import pwd
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol, cast

import msgspec

from heliograph.rpc import codes
from heliograph.rpc import proto_v1 as proto
from heliograph.rpc.frames import FRAME_BYTES_MAX, HELLO_BYTES_MAX, FrameError, RpcFrameReader, encoded, from_asker
from heliograph.rpc.methods import Action, Call, Method, RpcError
from heliograph.rpc.running import GIVEN_UP, RunningRequest, Services

_CREDENTIALS: Final = struct.Struct("3i")


class AnySocket(Protocol):
    def getsockopt(self, level: int, option: int, size: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class SocketPeer:
    """Who is at the other end (`alice (uid 1000)`); a process of our own user could do anyhow what we can."""

    user: str
    pid: int
    is_ours: bool


def peer_of(connection: AnySocket) -> SocketPeer:
    packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(packed)
    return SocketPeer(_user(uid), pid, uid == os.getuid())


def _user(uid: int) -> str:
    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"


IN_FLIGHT_MAX: Final = 4
_FRAMES_A_TURN: Final = 16
_CLOSE_S: Final = 1.0  # for a last frame to be read
_GONE: Final = RpcError(codes.CONNECTION_LOST, "its asker is gone")


@dataclass(frozen=True, slots=True)
class Patience:
    """How long, in seconds, a connection waits for its first frame, the rest of a frame, and its peer to read."""

    hello_s: float = 5.0
    frame_s: float = 30.0
    read_s: float = 30.0


class Host(Protocol):
    name: str
    place: str
    patience: Patience
    methods: Mapping[str, Method]
    services: Services

    def joined(self, connection: "RpcConnection") -> bool:
        """False if there are too many."""

    def left(self, connection: "RpcConnection", why: str) -> None: ...

    def overload(self) -> str:
        """Why only what is vital is answered now; empty where everything is."""


class RpcConnection(asyncio.Protocol):
    """One connection, from `connection_made` to `connection_lost`; owned by its server."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._frames = RpcFrameReader(HELLO_BYTES_MAX)
        self._requests: dict[int, RunningRequest] = {}
        self._timer: asyncio.TimerHandle | None = None  # what the peer has to do in time
        self._is_greeted = False
        self._is_open = False
        self._takes_requests = True
        self._is_reading_paused = False
        self.is_full = False
        self._transport: asyncio.Transport
        self._call: Call
        self._ended_for = ""

    @property
    def is_idle(self) -> bool:
        return not self._requests

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """What its requests wait in."""
        return [request.task for request in self._requests.values() if request.task is not None]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop has a class of its own
        peer = peer_of(transport.get_extra_info("socket"))
        self._call = Call(peer.user, f"{self._host.place}, pid {peer.pid}", peer.is_ours)
        self._is_open = True
        if self._host.joined(self):
            self._expect(self._host.patience.hello_s, "it sent no HELLO")
        else:
            self.end(codes.TOO_MANY_CONNECTIONS, "too many connections ask already; try again")

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_open = False
        self._expect_nothing()
        self.give_up(_GONE)
        self._host.left(self, self._ended_for)

    def data_received(self, data: bytes) -> None:
        if self._is_open:
            self._frames.receive(data)
            self._read()

    def pause_writing(self) -> None:
        """Nothing more is sent, nor read, until the peer reads."""
        self.is_full = True
        if not self._is_open:
            return
        self._pause_reading()
        self._expect(self._host.patience.read_s, "it does not read")

    def resume_writing(self) -> None:
        self.is_full = False
        if not self._is_open:
            return
        self._expect_nothing()
        for request in list(self._requests.values()):
            request.go_on()
        self._read()

    def send(self, frame: proto.ToAsker) -> None:
        """Unless the connection is closed; `FrameError` if it is too long."""
        data = encoded(frame)
        if self._is_open:
            self._transport.write(data)

    def ended(self, request: RunningRequest) -> None:
        self._requests.pop(request.number, None)

    def take_no_more(self) -> None:
        self._takes_requests = False

    def give_up(self, why: RpcError) -> None:
        for request in list(self._requests.values()):
            request.give_up(why)

    def end(self, code: str, message: str) -> None:
        if self._is_open:
            self.send(proto.Failure(0, code, message))
            self._is_open = False
            self._ended_for = self._ended_for or message
            self._expect_nothing()
            self._timer = asyncio.get_running_loop().call_later(_CLOSE_S, self._transport.abort)
            self._transport.close()

    def _read(self) -> None:
        """A few frames a turn."""
        try:
            for _ in range(_FRAMES_A_TURN):
                if not self._is_open or not self._takes_requests or self.is_full:
                    return
                if (frame := self._frames.next()) is None:
                    self._wait_for_more()
                    return
                self._take(from_asker(frame))
                if self._is_open and not self.is_full:
                    self._expect_nothing()  # the next frame has its own time
        except FrameError as error:
            self.end(codes.BAD_FRAME, str(error))
            return
        self._pause_reading()
        asyncio.get_running_loop().call_soon(self._read)

    def _wait_for_more(self) -> None:
        if self._is_reading_paused:
            self._is_reading_paused = False
            self._transport.resume_reading()
        if not self._is_greeted:
            return
        if self._frames.is_midway:
            if self._timer is None:
                self._expect(self._host.patience.frame_s, "it sent a part of a frame only")
        else:
            self._expect_nothing()

    def _take(self, frame: proto.FromAsker) -> None:
        if isinstance(frame, proto.Hello):
            self._greet(frame)
        elif not self._is_greeted:
            raise FrameError("the first frame is no HELLO")
        elif isinstance(frame, proto.Request):
            self._begin(frame)
        elif (request := self._requests.get(frame.id)) is not None:
            request.give_up(GIVEN_UP)

    def _greet(self, hello: proto.Hello) -> None:
        if self._is_greeted:
            raise FrameError("HELLO came twice")
        if proto.VERSION not in hello.versions:
            asked = ", ".join(map(str, hello.versions[:10])) or "none"
            self.end(codes.VERSION_MISMATCH, f"{self._host.name} speaks version {proto.VERSION}; you speak {asked}")
            return
        self._is_greeted = True
        self._expect_nothing()
        self._frames.bytes_max = FRAME_BYTES_MAX
        self.send(proto.Welcome(proto.VERSION, self._host.name))

    def _begin(self, asked: proto.Request) -> None:
        if asked.id <= 0 or asked.deadline_ms < 0 or asked.id in self._requests:
            raise FrameError("the id of a request is above 0 and not in flight, and its deadline not negative")
        method = self._host.methods.get(asked.method)
        call = self._call_of(asked)
        try:
            args = self._admitted(asked, method)
        except RpcError as error:
            self.send(proto.Failure(asked.id, error.code, error.message))
            if method is not None and method.is_action:
                refused = Action(call.who, call.origin, method.name, {}, error.code, error.message)
                self._host.services.audit.record(refused)
            return
        assert method is not None
        self._requests[asked.id] = RunningRequest(
            asked.id, method, args, call, asked.deadline_ms, self, self._host.services
        )

    def _call_of(self, asked: proto.Request) -> Call:
        """The peer, or the caller that it names, where it may name others."""
        if not asked.on_behalf:
            return self._call
        if not self._call.is_ours:
            raise FrameError("only processes of the node's own user ask for others")
        return Call(asked.on_behalf, self._call.origin, is_ours=True)

    def _admitted(self, asked: proto.Request, method: Method | None) -> msgspec.Struct:
        """The arguments of a request, or an `RpcError`."""
        if method is None:
            raise RpcError(codes.UNKNOWN_METHOD, _unknown(asked.method, self._host.methods))
        if len(self._requests) >= IN_FLIGHT_MAX:
            raise RpcError(codes.TOO_MANY_REQUESTS, f"{IN_FLIGHT_MAX} requests of it are in flight already")
        if not method.is_vital and (why := self._host.overload()):
            raise RpcError(codes.OVERLOADED, f"{why}; try again")
        try:
            return msgspec.msgpack.decode(asked.args, type=method.args)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise RpcError(codes.BAD_ARGUMENTS, f"{method.name}: {_readable(error)}") from error

    def _pause_reading(self) -> None:
        if not self._is_reading_paused:
            self._is_reading_paused = True
            self._transport.pause_reading()

    def _expect(self, seconds: float, otherwise: str) -> None:
        """Cut the connection after so many seconds, unless what is expected comes."""
        self._expect_nothing()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._cut, otherwise)

    def _expect_nothing(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _cut(self, why: str) -> None:
        self._ended_for = why
        self._transport.abort()

    def __repr__(self) -> str:
        return f"RpcConnection({self._call.who}, {self._call.origin}, {len(self._requests)} in flight)"


def _unknown(name: str, methods: Mapping[str, Method]) -> str:
    area = name.partition(".")[0] + "."
    valid = [one for one in methods if one.startswith(area)] or sorted({one.partition(".")[0] for one in methods})
    return f"there is no method {name[:100]!r}; valid are {', '.join(valid)}"


def _readable(error: Exception) -> str:
    return str(error).replace(" - at `$.", " - at `").replace(" - at `$`", "")
