"""The request that an HTTP service is asked with about a client, made of templates."""

import hashlib
import secrets
from collections.abc import Awaitable, Callable, Collection
from typing import Final, TypeVar

from heliograph.access.backends.http import HttpAnswer, HttpConnector, HttpQuestion, ask_http
from heliograph.access.backends.interface import PoolLimits
from heliograph.access.backends.live import Backends
from heliograph.access.backends.node_cache import CachedAnswer, CachedAnswers
from heliograph.access.backends.pool import Pool
from heliograph.access.templates import Template, Values
from heliograph.access.templates.documents import DocumentTemplate
from heliograph.access.templates.template import warn_of_unknown
from heliograph.access.templates.web import FormTemplate, UrlTemplate, header_value
from heliograph.config.backends.http import HttpRequest

Result = TypeVar("Result")
_POST: Final = "POST"
_KEPT: Final = (200, 204)


class RequestTemplate:
    """Makes requests; `unknown` are names that are not allowed. `TemplateError` if the URL cannot be used."""

    def __init__(self, settings: HttpRequest, names: Collection[str]) -> None:
        self._method = settings.method.upper()
        self._url = UrlTemplate(settings.url, names)
        self._headers = [(name, Template(value, names)) for name, value in settings.all_headers().items()]
        self._form = FormTemplate(settings.body, names)
        self._json = None if settings.is_form else DocumentTemplate(dict(settings.body), names)
        headers = [unknown for _, header in self._headers for unknown in header.unknown]
        self.unknown = [*self._url.unknown, *headers, *self._form.unknown]

    def question(self, values: Values) -> HttpQuestion:
        """`TemplateError` if a value cannot stand where it is to stand."""
        headers = tuple((name, header.render(values, header_value)) for name, header in self._headers)
        if self._method != _POST:
            return HttpQuestion(self._method, self._url.render(values, self._form.render(values)), headers)
        body = self._form.render(values).encode() if self._json is None else self._json.json(values)
        return HttpQuestion(self._method, self._url.render(values), headers, body)


class HttpBackend:
    """A service that is asked about clients; owned by what asks it.

    Args:
        names: The names of placeholders that are allowed.

    Raises:
        TemplateError: The URL cannot be used.
        OSError: A file of the settings of TLS cannot be used.
    """

    def __init__(
        self,
        name: str,
        settings: HttpRequest,
        names: Collection[str],
        deadline_s: float,
        backends: Backends,
        answers: CachedAnswers,
    ) -> None:
        self._answers = answers
        self._key = secrets.token_bytes(32)
        self._requests = RequestTemplate(settings, names)
        warn_of_unknown(name, self._requests.unknown)
        limits = PoolLimits(settings.pool_size, deadline_s=deadline_s, connect_s=settings.connect_timeout)
        self.pool = Pool(name, HttpConnector(settings, settings.url, backends.outbound.dialer(name)), limits, backends)

    def ask(self, values: Values, read: Callable[[HttpAnswer], Result]) -> Result | Awaitable[Result]:
        """What `read` makes of its answer about a client, at once where that is kept from before.

        Raises:
            TemplateError: A value of the client cannot be sent.
            BackendError: When it is awaited: there is no answer.
        """
        question = self._requests.question(values)
        kept: CachedAnswer[HttpAnswer] | None = self._answers.find(self._digest(question))
        return self._asked(question, read) if kept is None else read(kept.answer)

    async def _asked(self, question: HttpQuestion, read: Callable[[HttpAnswer], Result]) -> Result:
        answer = await self.pool.ask(lambda client: ask_http(client, question))
        if answer.status in _KEPT:
            self._answers.keep(self._digest(question), answer)
        return read(answer)

    def _digest(self, question: HttpQuestion) -> bytes:
        """A password cannot be read from it."""
        asked = (question.method, question.url, question.headers, question.body)
        return hashlib.blake2b(repr(asked).encode("utf-8", "surrogatepass"), key=self._key).digest()
