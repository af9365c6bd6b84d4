"""Who may read what needs no credentials: programs, and pages of this address; no page of another site in a browser.

A page of another site whose name is made to mean 127.0.0.1 ("DNS rebinding") is of the same origin for a browser. On a
loopback address, which such a page reaches and its author does not, a name that is not of this machine needs
credentials.
"""

import ipaddress
import socket
from typing import Final
from urllib.parse import urlsplit

from fastapi import Request

from heliograph.management.web.addresses import is_local
from heliograph.management.web.callers import Callers
from heliograph.management.web.errors import ApiError

_OTHER_SITES: Final = frozenset(("cross-site", "same-site"))
_FORBIDDEN: Final = (403, "FORBIDDEN")


async def check_open(request: Request) -> bool:
    """Refuse what a page of another site has made a browser ask for; whether the caller has credentials.

    Raises:
        ApiError: 403.
    """
    if _has_credentials(request) and await _is_known(request):
        return True
    if request.headers.get("sec-fetch-site") in _OTHER_SITES or _is_foreign(request.headers.get("origin"), request):
        raise ApiError(*_FORBIDDEN, "a page of another site reads this with credentials only")
    address, _ = request.scope.get("server") or ("", None)
    host = urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
    if is_local(address) and not _is_of_machine(host):
        raise ApiError(
            *_FORBIDDEN,
            f"Host: {host[:200]!r} is no name of this machine: ask with its address, `localhost`, or credentials",
        )
    return False


def _has_credentials(request: Request) -> bool:
    return "authorization" in request.headers or "cookie" in request.headers


async def _is_known(request: Request) -> bool:
    callers: Callers = request.app.state.callers
    try:
        await callers.identify(request)
    except ApiError:
        return False
    return True


def _is_foreign(origin: str | None, request: Request) -> bool:
    return origin is not None and urlsplit(origin).netloc != request.headers.get("host")


def _is_of_machine(host: str) -> bool:
    name = host.lower().rstrip(".")
    if not name or name == "localhost" or name.endswith(".localhost") or name == socket.gethostname().lower():
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
