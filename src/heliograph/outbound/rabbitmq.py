"""Connections to RabbitMQ, as sinks and sources open them by pika: what they are given, and what their errors say."""

import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from heliograph.outbound.dialing import SocketAddress

if TYPE_CHECKING:
    import pika


@dataclass(frozen=True, slots=True)
class RabbitmqLogin:
    """Who connects whereto, and how the broker is verified."""

    virtual_host: str
    heartbeat_s: float
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: ssl.SSLContext | None = None


def parameters_of(
    address: SocketAddress, host: str, login: RabbitmqLogin, timeout_s: float, name: str
) -> "pika.ConnectionParameters":
    """What pika is given of a connection.

    Args:
        host: Of which the broker's certificate is.
        name: By which the broker lists the connection.
    """
    import pika

    return pika.ConnectionParameters(
        host=address.host,
        port=address.port,
        virtual_host=login.virtual_host,
        credentials=pika.PlainCredentials(login.username or "guest", login.password or "guest"),
        heartbeat=max(1, round(login.heartbeat_s)),
        blocked_connection_timeout=timeout_s,
        socket_timeout=timeout_s,
        stack_timeout=timeout_s,
        ssl_options=None if login.tls is None else pika.SSLOptions(login.tls, host),
        client_properties={"connection_name": name},
    )


def rabbitmq_cause(error: Any) -> BaseException:
    """What failed, in the errors that pika makes of the steps of a connection."""
    while True:
        inner = [getattr(error, "exception", None), *getattr(error, "exceptions", ())[-1:], *error.args[:1]]
        deeper = [one for one in inner if isinstance(one, BaseException)]
        if not deeper:
            found: BaseException = error
            return found
        error = deeper[0]


def rabbitmq_text(error: BaseException) -> str:
    """What pika says; some of its errors have what the broker said in their arguments."""
    code, text = getattr(error, "reply_code", None), getattr(error, "reply_text", None)
    if code is not None:
        return f"{code} {text}"
    if isinstance(error, OSError):
        return str(error)
    parts = [str(part) for part in error.args] or [type(error).__name__]
    return ": ".join(parts)[:500]
