"""What a type of sources is: a class of `MessageSource`, declared in `kinds`; its settings are in `config.sources`."""

import asyncio
import ssl
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from heliograph.outbound import Dialer, Outbound
from heliograph.settings.tls import ClientTls
from heliograph.settings.units import Address
from heliograph.sources.inlet import Inlet

CONNECTED: Final = "connected"
CONNECTING: Final = "connecting"
DISCONNECTED: Final = "disconnected"


class SourceError(Exception):
    """A session with the far side is over; the text says why, for people."""


class LoginSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the node says of each source that connects somewhere; times are seconds."""

    timeout: float
    username: str | None = None
    password: str | None = None
    tls: dict[str, Any] | None = None

    async def tls_context(self) -> ssl.SSLContext | None:
        """How the server is verified; None without TLS. Raises `OSError` where a file cannot be used."""
        return None if self.tls is None else await asyncio.to_thread(ClientTls(**self.tls).context)


class ServerSettings(LoginSettings, frozen=True, kw_only=True):
    """Those of a source that connects to one server."""

    host: str
    port: int

    @property
    def server(self) -> str:
        """HOST:PORT, for people and rules."""
        return str(Address(self.host, self.port))


@dataclass(frozen=True, slots=True)
class SourceEnvironment:
    """What a source finds in its process.

    Attributes:
        source_id: As `mqtt:my_source`.
        inlet: Takes its messages.
        is_connected: To be called when messages can come.
        outbound: Where it may connect to.
        directory: Where it may keep files, beside those of others.
    """

    source_id: str
    inlet: Inlet
    is_connected: Callable[[], None]
    outbound: Outbound
    directory: Path

    @property
    def dialer(self) -> Dialer:
        """What opens the connections of the source."""
        return self.outbound.dialer(f"sources.{self.source_id.replace(':', '.', 1)}")


class MessageSource(ABC):
    """One source; made when its settings come or change, and owned by its worker.

    All methods are called in the event loop of the process, and must not block.

    Args:
        settings: As the node wrote them into the file for this type.

    Raises:
        ValueError: They are not of this type.
    """

    def __init__(self, settings: dict[str, Any], around: SourceEnvironment) -> None:
        self.around = around

    @property
    @abstractmethod
    def server(self) -> str:
        """HOST:PORT, for people and rules."""

    @abstractmethod
    async def session(self) -> None:
        """Connect, and put what comes into the inlet, until the connection is lost or this is cancelled.

        Called again after a pause when it ends. It acknowledges a message at its origin when `Incoming.done` is called,
        and not before; it reads on only when `Inlet.put` has returned.

        Raises:
            SourceError: Why it ended.
        """

    @abstractmethod
    async def check(self) -> None:
        """Connect once, see that messages could come, and leave nothing at the far side.

        Raises:
            SourceError: They could not.
        """

    async def forget(self) -> None:  # noqa: B027 - most types leave nothing behind
        """Leave nothing at the far side: the source was deleted. Called once, after `session` was cancelled."""
