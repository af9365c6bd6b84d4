"""Serves the application on the addresses that the settings name, and on others when they change."""

import asyncio
import errno
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from fastapi import FastAPI
from uvicorn.config import Config
from uvicorn.server import Server

from heliograph.config.management import DashboardListeners
from heliograph.management.web.accepting import BACKLOG, CallerAcceptor
from heliograph.management.web.connection import CallerConnection, handshakes_max
from heliograph.settings.tls import ServerTls
from heliograph.settings.units import Address

_KEEP_ALIVE_S: Final = 30
_GRACE_S: Final = 3
_SETTINGS: Final = "dashboard.listeners"
_TLS: Final = f"{_SETTINGS}.https.ssl_options"


class _Server(Server):
    """One that leaves signals to the program, and connections to a `CallerAcceptor`."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Take connections."""
        config = self.config
        protocol = partial(
            CallerConnection, config=config, server_state=self.server_state, app_state=self.lifespan.state
        )
        most = handshakes_max()
        acceptors: list[Any] = [CallerAcceptor(one, protocol, config.ssl, most) for one in sockets or ()]
        self.servers = acceptors  # which it closes, and waits for
        self.started = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the API is to be served."""

    bind: Address
    tls: ServerTls | None

    def __str__(self) -> str:
        return f"{_SETTINGS}.{'http' if self.tls is None else 'https'}.bind = {self.bind}"


@dataclass(frozen=True, slots=True)
class _Running:
    """Where it is served."""

    url: str
    port: int
    context: ssl.SSLContext | None
    server: _Server
    task: asyncio.Task[None]


class WebServer:
    """The listeners of the API; owned by the program.

    Args:
        app: What is served.
    """

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._running: dict[_Place, _Running] = {}

    @property
    def places(self) -> list[str]:
        """Where it is served, as `http://127.0.0.1:18083`."""
        return [one.url for one in self._running.values()]

    async def use(self, settings: DashboardListeners) -> None:
        """Serve where the settings say, from now on.

        Raises:
            OSError: An address or a certificate cannot be used; it is served where it was before.
        """
        wanted = _places(settings)
        contexts = {place: _context(place.tls) for place in wanted}
        # Of two addresses with one port, one may be all addresses of the machine: the old gives way to the new.
        ports = {place.bind.port for place in wanted if place not in self._running}
        before = {place: one.context for place, one in self._running.items()}
        await self._end([place for place, one in self._running.items() if place not in wanted and one.port in ports])
        try:
            self._begin(contexts)
        except OSError:
            await self._end([place for place in self._running if place not in before])
            self._begin(before)
            raise
        await self._end([place for place in self._running if place not in wanted])

    async def stop(self) -> None:
        await self._end(list(self._running))

    def _begin(self, contexts: Mapping[_Place, ssl.SSLContext | None]) -> None:
        for place, context in contexts.items():
            if place not in self._running:
                self._running[place] = self._serve(place, context)

    def _serve(self, place: _Place, context: ssl.SSLContext | None) -> _Running:
        listening = _listening(place)
        url = f"{'http' if context is None else 'https'}://{_shown(listening)}"
        config = Config(
            self._app,
            loop="none",
            http=CallerConnection,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=_GRACE_S,
        )
        config.load()
        config.ssl = context
        server = _Server(config)
        port = listening.getsockname()[1]
        return _Running(url, port, context, server, asyncio.create_task(server.serve([listening]), name=f"serve {url}"))

    async def _end(self, places: list[_Place]) -> None:
        ending = [self._running.pop(place) for place in places]
        for one in ending:
            one.server.should_exit = True
        if ending:
            await asyncio.wait([one.task for one in ending])


def _places(settings: DashboardListeners) -> list[_Place]:
    places: list[_Place] = []
    if settings.http.bind is not None:
        places.append(_Place(settings.http.bind, None))
    if settings.https.bind is not None:
        places.append(_Place(settings.https.bind, settings.https.ssl_options))
    return places


def _context(tls: ServerTls | None) -> ssl.SSLContext | None:
    if tls is None:
        return None
    for name, file in (("certfile", tls.certfile), ("keyfile", tls.keyfile), ("cacertfile", tls.cacertfile)):
        if file:
            _check_readable(name, file)
    try:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=tls.cacertfile or None)
        # An empty answer, not a question on the terminal, for a key with a password.
        context.load_cert_chain(tls.certfile, tls.keyfile or None, lambda: b"")
    except ssl.SSLError as error:
        text = f"{_TLS}: OpenSSL takes no certificate and key from these files ({error.reason})"
        raise OSError(errno.EINVAL, text) from error
    context.verify_mode = ssl.CERT_REQUIRED if tls.verify else ssl.CERT_NONE
    return context


def _check_readable(name: str, file: str) -> None:
    try:
        with open(file, "rb"):
            pass
    except OSError as error:
        raise OSError(error.errno, f"{_TLS}.{name} = {file!r}: {error.strerror}") from error


def _listening(place: _Place) -> socket.socket:
    bind = place.bind
    family = socket.AF_INET6 if ":" in bind.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((bind.host, bind.port))
        listening.listen(BACKLOG)
        listening.setblocking(False)
    except OSError as error:
        listening.close()
        raise OSError(error.errno, f"{place}: {error.strerror}") from error
    return listening


def _shown(listening: socket.socket) -> str:
    host, port, *_ = listening.getsockname()
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
