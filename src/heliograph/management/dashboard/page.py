"""Serves the dashboard at the root of the listener: the page, its files, and what the page may do."""

import asyncio
import gzip
import hashlib
import mimetypes
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Final

from fastapi import FastAPI, Request, Response

from heliograph.management.asking.nodes import Nodes
from heliograph.management.asking.websockets import WebSocketPlace, websocket_places
from heliograph.management.web.errors import not_found
from heliograph.rpc.conversation import UnreachableError
from heliograph.rpc.methods import RpcError

ROOT: Final = Path(__file__).parent / "static"
_TYPES: Final = {".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_IMPORT: Final = re.compile(r'^(?:import|export)\b[^"\n]*?(?:from )?"(\.{1,2}/[^"]+)";', re.MULTILINE)


class DashboardFiles:
    """All files below one folder; owned by the application.

    Args:
        root: The folder.

    Attributes:
        names: Their paths below the folder.
    """

    def __init__(self, root: Path = ROOT) -> None:
        self._root = root
        found = (path for path in root.rglob("*") if path.is_file() and path.suffix != ".mts")  # of the type check
        self.names = {path.relative_to(root).as_posix() for path in found}
        self._compressed: dict[str, bytes] = {}

    @cached_property
    def version(self) -> str:
        """A hash of all files and their names: with another one of them it is another one."""
        digest = hashlib.sha256()
        for name in sorted(self.names):
            data = (self._root / name).read_bytes()
            digest.update(f"{name} {len(data)} ".encode())
            digest.update(data)
        return digest.hexdigest()[:16]

    def data(self, name: str) -> bytes:
        """What a file holds."""
        return (self._root / name).read_bytes()

    def compressed(self, name: str) -> bytes:
        """What a file holds, with gzip."""
        if name not in self._compressed:
            self._compressed[name] = gzip.compress(self.data(name), 9, mtime=0)
        return self._compressed[name]

    def imported(self, names: list[str]) -> list[str]:
        """These modules and all that they import when they begin, so that a browser need not find them one by one."""
        found: dict[str, None] = {}
        waiting = list(reversed(names))
        while waiting:
            name = waiting.pop()
            if name not in found and name in self.names:
                found[name] = None
                folder = PurePosixPath(name).parent
                texts = _IMPORT.findall(self.data(name).decode())
                waiting += reversed([_joined(folder, text) for text in texts])
        return list(found)


def media_type(name: str) -> str:
    """The media type of a file, by its name."""
    suffix = PurePosixPath(name).suffix
    return _TYPES.get(suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"


def _joined(folder: PurePosixPath, text: str) -> str:
    steps: list[str] = []
    for step in (folder / text).parts:
        if step == "..":
            steps.pop()
        else:
            steps.append(step)
    return "/".join(steps)


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


_HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": "default-src 'none'; style-src 'self'; frame-ancestors 'none'",  # a page has more
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
}
_FOR_GOOD: Final = "public, max-age=31536000, immutable"
_FIRST: Final = ["main.js", "pages/overview.js"]  # what the page begins with


def add_dashboard(app: FastAPI) -> None:
    """Serve it. Its files have their hash in their paths, so browsers keep them until there are others."""
    files = DashboardFiles()
    websockets = ListedWebSockets(app.state.nodes)

    async def page(request: Request) -> Response:
        policy = policy_of(request.headers.get("host", ""), await websockets.get())
        tag = f'"{files.version}-{hashlib.sha256(policy.encode()).hexdigest()[:16]}"'
        headers = {**_HEADERS, "content-security-policy": policy, "cache-control": "no-cache", "etag": tag}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(_page(files), headers=headers, media_type="text/html")

    async def file(request: Request, version: str, name: str) -> Response:
        if version != files.version or name not in files.names or name == "index.html":
            return not_found(request)
        headers = {**_HEADERS, "cache-control": _FOR_GOOD, "vary": "accept-encoding"}
        if "gzip" in request.headers.get("accept-encoding", ""):
            headers["content-encoding"] = "gzip"
            return Response(files.compressed(name), headers=headers, media_type=media_type(name))
        return Response(files.data(name), headers=headers, media_type=media_type(name))

    for path, answer in (("/", page), ("/index.html", page), ("/assets/{version}/{name:path}", file)):
        app.add_api_route(path, answer, methods=["GET", "HEAD"], include_in_schema=False, response_class=Response)


def _page(files: DashboardFiles) -> str:
    base = f"assets/{files.version}"
    links = "\n".join(f'<link rel="modulepreload" href="{base}/{name}">' for name in files.imported(_FIRST))
    return files.data("index.html").decode().replace("<!-- modules -->", links).replace("{assets}", base)
