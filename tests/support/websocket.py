"""WebSocket from the client's side as bytes, so that a test says exactly what is on the wire."""

from typing import Final

from support.listening import Rig, Socket

KEY: Final = "dGhlIHNhbXBsZSBub25jZQ=="
ACCEPT: Final = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="  # for that key, from RFC 6455

CONTINUATION: Final = 0x0
TEXT: Final = 0x1
BINARY: Final = 0x2
CLOSE: Final = 0x8
PING: Final = 0x9
PONG: Final = 0xA

_MASK: Final = b"\x37\xfa\x21\x3d"


def frame(
    payload: bytes = b"",
    opcode: int = BINARY,
    *,
    fin: bool = True,
    rsv: int = 0,
    mask: bytes | None = _MASK,
    length: int | None = None,
) -> bytes:
    """A frame as a client sends it; `length` claims another length than the payload has."""
    size = len(payload) if length is None else length
    flag = 0 if mask is None else 0x80
    head = bytes((fin << 7 | rsv << 4 | opcode,))
    if size < 126:
        head += bytes((flag | size,))
    elif size < 65536:
        head += bytes((flag | 126,)) + size.to_bytes(2, "big")
    else:
        head += bytes((flag | 127,)) + size.to_bytes(8, "big")
    if mask is None:
        return head + payload
    return head + mask + bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))


def close_frame(code: int | None = 1000, reason: bytes = b"") -> bytes:
    """The client's goodbye."""
    return frame(b"" if code is None else code.to_bytes(2, "big") + reason, CLOSE)


def answer(payload: bytes = b"", opcode: int = BINARY) -> bytes:
    """A whole frame as a server sends it."""
    return frame(payload, opcode, mask=None)


def goodbye(code: int) -> bytes:
    """The server's goodbye."""
    return answer(code.to_bytes(2, "big"), CLOSE)


def request(**changes: str | None) -> bytes:
    """A handshake; `changes` replaces headers (`_` for `-`) or leaves them out, `path`, and `start`, the first line."""
    path = changes.pop("path", "/mqtt")
    start = changes.pop("start", f"GET {path} HTTP/1.1")
    headers: dict[str, str | None] = {
        "Host": "localhost",
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": KEY,
        "Sec-WebSocket-Protocol": "mqtt",
    }
    headers.update({name.replace("_", "-"): value for name, value in changes.items()})
    lines = [start or "", *(f"{name}: {value}" for name, value in headers.items() if value is not None)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


async def upgrade(client: Socket, **changes: str | None) -> None:
    """Have a connection answered with 101."""
    await client.say(request(**changes))
    response = await client.hear_until(b"\r\n\r\n")
    assert response.startswith(b"HTTP/1.1 101 "), response


async def upgraded(rig: Rig, **changes: str | None) -> Socket:
    """A client that has been answered with 101."""
    client = await rig.socket()
    await upgrade(client, **changes)
    return client
