"""What the page may do in a browser: scripts and styles of ours, requests to this server and to our WebSockets."""

import asyncio
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from heliograph.management.asking.nodes import Nodes
from heliograph.management.asking.websockets import WebSocketPlace, websocket_places
from heliograph.rpc.conversation import UnreachableError
from heliograph.rpc.methods import RpcError

_KEPT_S: Final = 5.0
_AWAY_S: Final = 1.0  # so long after a node that did not answer it is not asked again
_ASK_S: Final = 5.0  # a node that hangs: the page is there without them
# A policy knows names and IPv4 addresses. What else a request says of its host stands in no header.
_HOST: Final = re.compile(r"([A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?)(?::[0-9]{1,5})?")
_BEFORE: Final = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:"
_BEHIND: Final = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


def policy_of(host: str, places: Sequence[WebSocketPlace]) -> str:
    """The Content-Security-Policy of a page.

    Args:
        host: As the browser has asked for it, with a port or without.
        places: Where the page may speak MQTT, at that host.
    """
    asked = _HOST.fullmatch(host)
    origins = sorted({f"{one.scheme}://{asked[1]}:{one.port}" for one in places}) if asked else []
    return "; ".join((_BEFORE, " ".join(("connect-src 'self'", *origins)), _BEHIND))


class ListedWebSockets:
    """The listeners of WebSockets of the node, asked for at most once in some seconds; owned by the page.

    Args:
        nodes: Of which the own one is asked.
        now_s: A clock.
    """

    def __init__(self, nodes: Nodes, now_s: Callable[[], float] = time.monotonic) -> None:
        self._nodes = nodes
        self._now_s = now_s
        self._places: list[WebSocketPlace] = []
        self._until_s = 0.0
        self._asking = asyncio.Lock()

    async def get(self) -> list[WebSocketPlace]:
        """Those of the last answer, as long as the node is away. Calls meanwhile wait for the same answer."""
        async with self._asking:
            if self._now_s() >= self._until_s:
                kept_s = _AWAY_S
                with suppress(RpcError, UnreachableError):
                    self._places = await websocket_places(self._nodes.own(), _ASK_S)
                    kept_s = _KEPT_S
                self._until_s = self._now_s() + kept_s
            return self._places
