"""The settings of requests to an HTTP service, for authenticators and sources of authorization."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from heliograph.settings.fields import optional_section, required, setting
from heliograph.settings.kinds import Choice, Duration, Integer, RefusedError, Text, Texts
from heliograph.settings.tls import ClientTls

JSON: Final = "application/json"
FORM: Final = "application/x-www-form-urlencoded"
CONTENT_TYPE: Final = "content-type"
_HEADERS: Final = {"accept": JSON, "cache-control": "no-cache"}


# Without slots: classes with slots cannot be joined.
@dataclass(frozen=True, kw_only=True)
class HttpConnection:
    connect_timeout: float = setting(Duration(0.001), 15.0, "How long opening a connection may take.")
    pool_size: int = setting(Integer(1, 1000), 8, "Connections at most; that many requests are made at a time.")
    enable_pipelining: int = setting(
        Integer(1), 100, "Taken as EMQX has it, and without effect: a connection has one request at a time."
    )
    max_inactive: float = setting(Duration(0.001), 10.0, "How long a connection is kept that is not used.")
    tls: ClientTls | None = optional_section(ClientTls, "TLS; a URL of https needs it.", name="ssl", has_switch=True)


@dataclass(frozen=True, kw_only=True)
class HttpRequest(HttpConnection):
    """The request that is made about a client; URL, headers and body may hold placeholders."""

    method: str = required(Choice("get", "post"), "How the service is asked.")
    url: str = required(Text("a URL as in http://127.0.0.1:8080/auth", r"https?://\S+"), "What it is asked at.")
    headers: Mapping[str, str] = setting(
        Texts(),
        {},
        "Headers of each request. `accept`, `cache-control` and (with `post`) `content-type` have values without it; "
        f"`content-type` says how the body is written: `{JSON}` or `{FORM}`.",
        is_secret=True,
    )
    body: Mapping[str, str] = setting(
        Texts(),
        {},
        "What is asked: with `get` it is added to the query of the URL, with `post` it is the body.",
        is_secret=True,
    )

    def __post_init__(self) -> None:
        if self.url.startswith("https:") and self.tls is None:
            raise RefusedError("a URL of https needs ssl.enable = true", "url")
        content_type = self.all_headers().get(CONTENT_TYPE, "")
        if self.method == "get" and content_type:
            raise RefusedError("a request without a body (get) has no content-type", "headers")
        if self.method == "post" and not self.is_form and not content_type.lower().startswith(JSON):
            raise RefusedError(f"the content-type {content_type!r} is not {JSON} or {FORM}", "headers")

    def all_headers(self) -> Mapping[str, str]:
        """The headers of a request, with lower-case names."""
        own = {name.lower(): value for name, value in self.headers.items()}
        defaults = _HEADERS | ({CONTENT_TYPE: JSON} if self.method == "post" else {})
        return defaults | own

    @property
    def is_form(self) -> bool:
        return self.all_headers().get(CONTENT_TYPE, "").lower().startswith(FORM)
