"""The source `http`: a service is asked about each action whose decision is not cached."""

from collections.abc import Awaitable
from typing import Final

from heliograph.access.authorization.interface import AskedSource, SourceSurroundings
from heliograph.access.backends.http import HttpAnswer, object_of
from heliograph.access.templates import TemplateError, client_values
from heliograph.access.templates.values import REQUEST_NAMES
from heliograph.broker.actions import PUBLISH, Action
from heliograph.broker.client import ClientInfo
from heliograph.config.authorization import HttpSourceConfig
from heliograph.config.backends.http import JSON

_OK: Final = 200
_NO_CONTENT: Final = 204
_VERDICTS: Final = ("allow", "deny", "ignore")
_NO_MATCH: Final = "nomatch"
_DENY: Final = "deny"
_TOO_LARGE: Final = (413, 414, 431)  # the body, the URL or the headers, which a client may make as long as it likes
_ACCESS: Final = {True: "2", False: "1"}  # of publishing, and of subscribing


class HttpSource(AskedSource):
    def __init__(self, settings: HttpSourceConfig, surroundings: SourceSurroundings) -> None:
        from heliograph.access.backends.http_requests import HttpBackend  # with httpx, which takes time

        super().__init__("http")
        answers, backends = surroundings.node_cache.answers(), surroundings.backends
        timeout_s = settings.request_timeout
        self._service = HttpBackend("authorization:http", settings, REQUEST_NAMES, timeout_s, backends, answers)
        self.backend = self._service.pool

    def ask(self, client: ClientInfo, action: Action, topic: str) -> str | Awaitable[str]:
        is_publish = action.kind == PUBLISH
        more = {"qos": str(action.qos), "retain": str(action.retain).lower() if is_publish else None}
        values = client_values(client, None, action=action.kind, topic=topic, access=_ACCESS[is_publish], **more)
        try:
            return self._service.ask(values, verdict_of_answer)
        except TemplateError:
            return _DENY  # a name that cannot be sent on must not be a way around what the service denies


def verdict_of_answer(answer: HttpAnswer) -> str:
    if answer.status == _NO_CONTENT:
        return "allow"
    if answer.status in _TOO_LARGE:
        return _DENY
    body = object_of(answer, JSON) if answer.status == _OK else None
    result = None if body is None else body.get("result")
    return result if isinstance(result, str) and result in _VERDICTS else _NO_MATCH


def make(settings: HttpSourceConfig, surroundings: SourceSurroundings) -> HttpSource:
    return HttpSource(settings, surroundings)
