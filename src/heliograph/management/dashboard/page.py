"""Serves the dashboard at the root of the listener: the page, its files, and what the page may do."""

import hashlib
from collections.abc import Mapping
from typing import Final

from fastapi import FastAPI, Request, Response

from heliograph.management.dashboard.files import DashboardFiles, media_type
from heliograph.management.dashboard.policy import ListedWebSockets, policy_of
from heliograph.management.web.errors import not_found

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
