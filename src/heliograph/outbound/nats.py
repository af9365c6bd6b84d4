"""Connections to NATS, as sinks and sources open them: to one address, and never to servers that this one names."""

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from heliograph.outbound.dialing import SocketAddress

if TYPE_CHECKING:
    from nats.aio.client import Client

_CLOSE_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class NatsLogin:
    """Who connects, and how the server is verified."""

    username: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    tls: ssl.SSLContext | None = None


async def open_nats(
    address: SocketAddress,
    host: str,
    login: NatsLogin,
    timeout_s: float,
    name: str,
    on_error: Callable[[Exception], Awaitable[None]],
    on_lost: Callable[[], Awaitable[None]],
) -> "Client":
    """A client of the server at an address.

    Args:
        host: Of which its certificate is.
        name: By which the server lists the connection.
        on_error: Called with what the server says of a request that has no answer, and with lost connections.
        on_lost: Called when the connection is lost, and while it is closed.

    Raises:
        OSError: There is no connection; `TimeoutError` is one.
        nats.errors.Error: The server refuses it.
    """
    from nats.aio.client import Client

    client = Client()
    arguments: dict[str, Any] = {}
    if login.username is not None:
        arguments |= {"user": login.username, "password": login.password or ""}
    if login.token is not None:
        arguments["token"] = login.token
    if login.tls is not None:
        arguments |= {"tls": login.tls, "tls_hostname": host}
    at = f"[{address.host}]" if ":" in address.host else address.host
    try:
        async with asyncio.timeout(timeout_s):
            await client.connect(
                f"{'tls' if login.tls is not None else 'nats'}://{at}:{address.port}",
                name=name,
                error_cb=on_error,
                disconnected_cb=on_lost,
                closed_cb=on_lost,
                connect_timeout=max(1, round(timeout_s)),
                allow_reconnect=False,  # to servers that this one names, which nothing has looked at
                max_reconnect_attempts=1,  # without a number it tries for ever
                reconnect_time_wait=0,
                **arguments,
            )
    except BaseException:
        await close_nats(client)
        raise
    return client


async def close_nats(client: "Client") -> None:
    """End a client, whatever became of its connection."""
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(_CLOSE_S):
            await client.close()
            transport: Any = client._transport  # which nats-py leaves open where the server went away
            if transport is not None:
                transport.close()
                await transport.wait_closed()


async def flush_nats(client: "Client", timeout_s: float) -> None:
    """Wait until the server has what was sent, and what it says of that is here."""
    for _ in range(2):  # nats-py sends the first PING ahead of what it has yet to send
        await client.flush(max(1, round(timeout_s)))


def is_loss(error: Exception) -> bool:
    """Whether an error is a lost connection: nats-py cancels itself before it calls what is for that."""
    import nats.errors

    return isinstance(error, OSError | nats.errors.StaleConnectionError)


def nats_text(error: BaseException) -> str:
    """What an error says."""
    described = getattr(error, "description", None)
    return str(described or error or type(error).__name__).removeprefix("nats: ").strip("'")
