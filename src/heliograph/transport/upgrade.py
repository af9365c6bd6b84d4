"""The WebSocket handshake, sans-IO: from a client's HTTP request to the answer, and what was agreed on.

The request is read and judged by the `websockets` package; what is added is what MQTT and the operator ask for.
"""

import ipaddress
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, cast

from websockets.exceptions import NegotiationError
from websockets.extensions.base import ServerExtensionFactory
from websockets.extensions.permessage_deflate import PerMessageDeflate, ServerPerMessageDeflateFactory
from websockets.http11 import Request, Response
from websockets.server import ServerProtocol
from websockets.typing import Origin, Subprotocol

from heliograph.config.listeners import WebsocketOptions
from heliograph.transport.addresses import host_and_port, plain_host
from heliograph.transport.deflate import Deflater, Inflater

REQUEST_BYTES_MAX: Final = 8192
END_OF_REQUEST: Final = b"\r\n\r\n"
_MQTT: Final = Subprotocol("mqtt")

_log = logging.getLogger("heliograph.transport.websockets")
_log.setLevel(logging.ERROR)  # what peers do wrong is counted and answered; it does not fill the log


@dataclass(frozen=True, slots=True)
class Upgrade:
    """How a request is answered.

    Attributes:
        is_accepted: Whether frames follow; else the connection is closed.
        reason: Why not, for the log.
        peername: The client's address as a proxy gave it, or None.
    """

    answer: bytes
    is_accepted: bool
    reason: str = ""
    peername: str | None = None
    inflater: Inflater | None = None
    deflater: Deflater | None = None


class UpgradePolicy:
    """What a listener asks of requests; made once for it."""

    def __init__(self, options: WebsocketOptions) -> None:
        self._options = options
        self._subprotocols = [Subprotocol(name.strip()) for name in options.supported_subprotocols.split(",")]
        self._origins: list[Origin | None] | None = None
        if options.check_origin_enable:
            self._origins = [Origin(name.strip()) for name in options.check_origins.split(",") if name.strip()]
            if options.allow_origin_absence:
                self._origins.append(None)
        self._extensions = [_deflate_factory(options)] if options.compress else None

    def decide(self, request_bytes: bytes, peername: str) -> Upgrade:
        """How to answer a whole request, with its empty line, of a peer at `host:port`."""
        protocol = _Protocol(
            self._options.fail_if_no_subprotocol,
            origins=self._origins,
            extensions=self._extensions,
            subprotocols=self._subprotocols,
            logger=_log,
        )
        protocol.receive_data(request_bytes)
        events = protocol.events_received()
        if not events or not isinstance(events[0], Request):
            return _refusal(protocol.reject(HTTPStatus.BAD_REQUEST, "not an HTTP request\n"), "no HTTP request")
        request = events[0]
        path = request.path.partition("?")[0]
        if path != self._options.mqtt_path:
            return _refusal(protocol.reject(HTTPStatus.NOT_FOUND, "no such path\n"), f"path {path!r}")
        response = protocol.accept(request)
        if response.status_code != HTTPStatus.SWITCHING_PROTOCOLS:
            return _refusal(response, str(protocol.handshake_exc))
        return self._acceptance(protocol, request, response, peername)

    def _acceptance(self, protocol: ServerProtocol, request: Request, response: Response, peername: str) -> Upgrade:
        inflater, deflater = None, None
        if protocol.extensions:
            agreed = cast("PerMessageDeflate", protocol.extensions[0])
            options = self._options.deflate_opts
            inflater = Inflater(agreed.remote_max_window_bits, not agreed.remote_no_context_takeover)
            deflater = Deflater(
                agreed.local_max_window_bits, options.level, options.mem_level, not agreed.local_no_context_takeover
            )
        forwarded = self._forwarded(request, peername)
        return Upgrade(response.serialize(), True, "", forwarded, inflater, deflater)

    def _forwarded(self, request: Request, peername: str) -> str | None:
        """The client's address where a proxy in front of us wrote it into headers."""
        host, port = host_and_port(peername)
        hosts = _header(request, self._options.proxy_address_header)
        ports = _header(request, self._options.proxy_port_header)
        if not hosts and not ports:
            return None
        name = _valid_host(hosts) or host
        if ports.isascii() and ports.isdigit() and len(ports) <= 5 and int(ports) <= 65535:
            port = str(int(ports))
        return f"[{name}]:{port}" if ":" in name else f"{name}:{port}"


class _Protocol(ServerProtocol):
    def __init__(
        self,
        is_required: bool,
        *,
        origins: Sequence[Origin | None] | None,
        extensions: Sequence[ServerExtensionFactory] | None,
        subprotocols: Sequence[Subprotocol],
        logger: logging.Logger,
    ) -> None:
        super().__init__(origins=origins, extensions=extensions, subprotocols=subprotocols, logger=logger)
        self._is_required = is_required

    def select_subprotocol(self, subprotocols: Sequence[Subprotocol]) -> Subprotocol | None:
        """`mqtt` where the client asks for it; else the first of its others that the listener has."""
        supported = self.available_subprotocols or ()
        common = [name for name in subprotocols if name in supported]
        if common:
            return _MQTT if _MQTT in common else common[0]  # [MQTT-6.0.0-4] 3.1.1 [MQTT-6.0.0-4]
        if self._is_required:
            raise NegotiationError(
                f"the subprotocol must be one of {', '.join(supported)}"
            )  # [MQTT-6.0.0-3] 3.1.1 [MQTT-6.0.0-3]
        return None


def _deflate_factory(options: WebsocketOptions) -> ServerPerMessageDeflateFactory:
    deflate = options.deflate_opts
    return ServerPerMessageDeflateFactory(
        server_no_context_takeover=not deflate.server_context_takeover,
        client_no_context_takeover=not deflate.client_context_takeover,
        server_max_window_bits=deflate.server_max_window_bits,
        client_max_window_bits=deflate.client_max_window_bits,
        compress_settings={"level": 1, "memLevel": 1},  # its own encoder is not used
    )


def _header(request: Request, name: str) -> str:
    """The first value of a header: with several proxies in a row, the first one saw the client itself."""
    if not name:
        return ""
    values = request.headers.get_all(name)
    return values[0].split(",")[0].strip() if values else ""


def _valid_host(text: str) -> str:
    """An address in its usual form; empty for anything else: bans and logs are by address."""
    try:
        return plain_host(str(ipaddress.ip_address(text.removeprefix("[").removesuffix("]"))))
    except ValueError:
        return ""


def _refusal(response: Response, reason: str) -> Upgrade:
    return Upgrade(response.serialize(), False, reason)
