"""The cookie of a login in a browser, and which requests it counts for: those that a page of ours has sent."""

import re
from typing import Final
from urllib.parse import urlsplit

from fastapi import Request, Response

from heliograph.management.people.devices import LIFE_S
from heliograph.management.web.area import BASE
from heliograph.management.web.errors import ApiError

COOKIE: Final = "heliograph_login"
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_SAME: Final = "same-origin"
# Where a proxy serves us below a path of its own, our page knows it, and says it when it logs in.
_BASE_HEADER: Final = "x-base-path"
_BASE_PATH: Final = re.compile(r"(?:/[A-Za-z0-9._~-]{1,100}){0,8}/")


def is_browser(request: Request) -> bool:
    """Whether a browser has sent it, which says so since 2020 to 2023."""
    return "sec-fetch-site" in request.headers


def is_own_page(request: Request) -> bool:
    """Whether a page of this address has sent it, as its browser says."""
    return request.headers.get("sec-fetch-site") == _SAME


def check_same_origin(request: Request) -> None:
    """Refuse a change that another site has made a browser ask for.

    The cookie is `SameSite=Strict`; this holds where a browser does not heed that, and between sites of one domain.

    Raises:
        ApiError: 403.
    """
    if request.method in _SAFE:
        return
    if is_browser(request):
        if is_own_page(request):
            return
    elif _is_own(request.headers.get("origin", ""), request) and _is_json(request):
        return
    raise ApiError(
        403,
        "FORBIDDEN",
        "the cookie of a login counts for JSON that a page of this address has sent; programs send "
        "`Authorization: Bearer` or an API key",
    )


def is_over_tls(request: Request, page: str = "") -> bool:
    """Whether a browser speaks TLS, also where that ends at a proxy.

    Args:
        page: The address of the page; empty for where the browser says that it is.
    """
    return request.url.scheme == "https" or (page or request.headers.get("origin", "")).startswith("https://")


def set_cookie(response: Response, request: Request, token: str, path: str = "", page: str = "") -> None:
    """Give a browser the token of a login; no script can read it, and it ends with the browser.

    Args:
        path: What it counts for; empty for the API below the page that sent the request.
        page: The address of the page; empty for where the browser says that it is.
    """
    response.set_cookie(
        COOKIE,
        token,
        path=path or _path(request),
        httponly=True,
        samesite="strict",
        secure=is_over_tls(request, page),
    )


def set_device_cookie(response: Response, request: Request, name: str, device: str) -> None:
    """Give a browser what it is known by at later logins; it stays when a login ends."""
    response.set_cookie(
        name,
        device,
        max_age=LIFE_S,
        path=_path(request),
        httponly=True,
        samesite="strict",
        secure=is_over_tls(request),
    )


def clear_cookie(response: Response, request: Request) -> None:
    response.delete_cookie(COOKIE, path=_path(request), httponly=True, samesite="strict", secure=is_over_tls(request))


def _path(request: Request) -> str:
    base = request.headers.get(_BASE_HEADER, "/")
    return f"{base[:-1]}{BASE}" if _BASE_PATH.fullmatch(base) else BASE


def _is_own(origin: str, request: Request) -> bool:
    found = urlsplit(origin)
    return bool(found.netloc) and (found.scheme, found.netloc) == (request.url.scheme, request.headers.get("host"))


def _is_json(request: Request) -> bool:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"
