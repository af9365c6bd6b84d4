"""Settings of connectors and actions of type `http`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from heliograph.config.actions.interface import ActionConfig, ConnectorConfig, SentTemplate, ignored
from heliograph.hocon.values import Content
from heliograph.mqtt.template import split_template
from heliograph.settings.addresses import url_address
from heliograph.settings.fields import optional, optional_section, required, section, setting
from heliograph.settings.kinds import Choice, Duration, Integer, RefusedError, Text, Texts
from heliograph.settings.tls import ClientTls

_WITHOUT_BODY: Final = ("get", "delete")


class BaseUrl(Text):
    """Where a service is, without what only a request has."""

    is_place = True
    is_sent = True  # a webhook's may end with a token

    def __init__(self) -> None:
        super().__init__("a URL that begins with http:// or https://, without ? and #", r"https?://[^\s?#$]+")

    def convert(self, value: Content) -> str:
        text = super().convert(value)
        try:
            parts = urlsplit(text)
            has_host = bool(parts.hostname) and (parts.port is None or parts.port > 0)
        except ValueError as error:
            raise RefusedError(str(error)) from None
        if not has_host:
            raise RefusedError
        return text


class LowerMethod(Choice):
    def __init__(self) -> None:
        super().__init__("post", "put", "patch", *_WITHOUT_BODY)

    def convert(self, value: Content) -> str:
        return super().convert(value.lower() if isinstance(value, str) else value)


REQUESTS_MAX: Final = 64
"""Requests of one connector at a time."""


@dataclass(frozen=True, kw_only=True)
class HttpConnectorConfig(ConnectorConfig):
    url: str = required(BaseUrl(), "Where it is; the path of an action follows it.")
    headers: Mapping[str, str] = setting(Texts(), {}, "Headers of every request, by name.", is_secret=True)
    pool_size: int = setting(Integer(1), 8, f"Requests at a time; more than {REQUESTS_MAX} count as {REQUESTS_MAX}.")
    tls: ClientTls | None = optional_section(
        ClientTls, "TLS, where the URL begins with https.", name="ssl", has_switch=True
    )
    connect_timeout: float = ignored(Duration(), 15.0, "the `request_timeout` of an action holds for connecting too")
    pool_type: str = ignored(Choice("random", "hash"), "random", "requests go over any connection that is idle")
    enable_pipelining: int = ignored(Integer(1), 100, "a connection has one request under way")
    max_inactive: float = ignored(Duration(), 10.0, "a connection that was idle for 30 seconds is made again")

    def addresses(self) -> tuple[tuple[str, int], ...]:
        return (url_address(self.url),)


@dataclass(frozen=True, kw_only=True)
class HttpParameters:
    path: str = setting(SentTemplate(), "", "Template of what follows the URL of the connector.")
    method: str = setting(LowerMethod(), "post", "Method of the request; `get` and `delete` have no body.")
    headers: Mapping[str, str] = setting(Texts(), {}, "Templates of headers, by name.", is_secret=True)
    body: str | None = optional(SentTemplate(), "Template of the body; without, the row as JSON.")
    max_records: int = setting(
        Integer(1, 10_000),
        1,
        "Rows of a request at most; from 2 on the body is a JSON array of their bodies. EMQX does not have it.",
    )
    max_retries: int = setting(Integer(0, 99), 2, "How often a request is tried again before its batch is.")
    request_timeout: float = setting(Duration(0.001), 30.0, "How long an answer may take.")

    def __post_init__(self) -> None:
        if self.max_records == 1:
            return
        if self.method in _WITHOUT_BODY:
            raise RefusedError(f"must be 1: {self.method} has no body", "max_records")
        for text in (self.path, *self.headers.values()):
            if len(split_template(text, lambda name: True)) > 1:
                raise RefusedError("must be 1: path or headers take something of the row", "max_records")


@dataclass(frozen=True, kw_only=True)
class HttpAction(ActionConfig):
    parameters: HttpParameters = section(HttpParameters, "The request.")
