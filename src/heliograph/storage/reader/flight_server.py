"""The reader's Arrow Flight service: authentication, rights, and errors as clients know them."""

import json
from collections.abc import Callable, Iterator
from typing import Final

from pyarrow import flight

from heliograph.storage.errors import StorageError
from heliograph.storage.reader.databases import Answer, StorageReader
from heliograph.storage.reader.request import INVALID_REQUEST, REQUEST_BYTES_MAX, Request
from heliograph.storage.reader.security import ReaderSecurity, ReaderToken, UnauthenticatedError
from heliograph.storage.reader.user_rights import UserRights

_CALLER: Final = "caller"  # the name of the middleware
_INFO: Final = "info"
_OFFLOADED: Final = "offloaded"


class _Caller(flight.ServerMiddleware):  # type: ignore[misc]  # pyarrow has no types
    def __init__(self, token: ReaderToken | None) -> None:
        self.token = token


class _Callers(flight.ServerMiddlewareFactory):  # type: ignore[misc]  # pyarrow has no types
    def __init__(self, security: ReaderSecurity) -> None:
        self._security = security

    def start_call(self, info: flight.CallInfo, headers: dict[str, list[str]]) -> _Caller:
        given = next((values[0] for name, values in headers.items() if name.lower() == "authorization"), None)
        try:
            return _Caller(self._security.authenticate(given))
        except UnauthenticatedError as error:
            raise flight.FlightUnauthenticatedError(str(error), error.code.encode()) from None


class FlightServer(flight.FlightServerBase):  # type: ignore[misc]  # pyarrow has no types
    """Serves a `StorageReader`. Listens from its construction on.

    Args:
        rights: What users that tokens name may read.
    """

    def __init__(
        self,
        reader: StorageReader,
        bind: tuple[str, int],
        security: ReaderSecurity | None = None,
        rights: UserRights | None = None,
    ) -> None:
        host, port = bind
        self._rights = rights or UserRights()
        security = security or ReaderSecurity()
        security.check_address(host)
        certificate, authorities = security.certificate(), security.authorities()
        super().__init__(
            f"grpc{'+tls' if certificate else ''}://{f'[{host}]' if ':' in host else host}:{port}",
            tls_certificates=[certificate] if certificate else None,
            verify_client=authorities is not None,
            root_certificates=authorities,
            middleware={_CALLER: _Callers(security)},
        )
        self._actions: dict[str, tuple[Callable[[Request], dict[str, object]], str]] = {
            "get_streams": (reader.get_streams, "The streams of topic filters, with their ranks."),
            "plan": (reader.plan, "How far each stream may be read next within limits."),
            "plan_newest": (reader.plan_newest, "Since when the newest messages may be read within limits."),
            "split": (reader.split, "Pieces of about the same size of ranges of streams."),
            "offloaded": (reader.offloaded, "Which generations were offloaded, and to which files."),
            "info": (reader.info, "The databases, or the totals of one."),
        }
        self._reader = reader

    def list_actions(self, context: flight.ServerCallContext) -> list[tuple[str, str]]:
        return [(name, description) for name, (_, description) in self._actions.items()]

    def do_action(self, context: flight.ServerCallContext, action: flight.Action) -> list[bytes]:
        known = self._actions.get(action.type)
        if known is None:
            raise flight.FlightServerError(f"there is no action {action.type!r}; there are: {', '.join(self._actions)}")
        try:
            if action.body is not None and action.body.size > REQUEST_BYTES_MAX:
                raise ValueError(f"the request has {action.body.size} bytes; {REQUEST_BYTES_MAX} are allowed")
            request, token = Request(action.body.to_pybytes()), _token_of(context)
            if token is not None:
                self._check(token, request, has_topics=action.type != _INFO)
            answer = known[0](request)
            if token is not None:
                answer = _without_what_it_may_not_know(action.type, answer, token)
            return [json.dumps(answer).encode()]
        except Exception as error:
            self._reader.met(error)
            raise _flight_error(error) from error

    def do_get(self, context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.FlightDataStream:
        try:
            request, token = Request(ticket.ticket), _token_of(context)
            if token is not None:
                self._check(token, request, has_topics=True)
            may_read = self._rights.check_of(token.user) if token is not None and token.user else None
            schema, batches = self._reader.read(request, may_read)
        except Exception as error:
            self._reader.met(error)
            raise _flight_error(error) from error
        return flight.GeneratorStream(schema, _with_flight_errors(batches, self._reader))

    def _check(self, token: ReaderToken, request: Request, *, has_topics: bool) -> None:
        if has_topics:
            token.check_topics(wanted.text for wanted in request.filters())
        if request.has_database():
            token.check_database(request.database, self._reader.databases())


def _token_of(context: flight.ServerCallContext) -> ReaderToken | None:
    caller: _Caller = context.get_middleware(_CALLER)
    return caller.token


def _without_what_it_may_not_know(action: str, answer: dict[str, object], token: ReaderToken) -> dict[str, object]:
    """An answer without other databases, and without sums over topics that a token may not see.

    The topics of dropped streams are no longer known.
    """
    databases = answer.get("databases")
    if isinstance(databases, list):
        return {"databases": token.visible(databases)}
    if token.sees_all_topics:
        return answer
    if action == _INFO:
        return {**answer, "messages": None, "bytes": None, "streams": None}
    if action == _OFFLOADED:  # the files have all topics
        return {"generations": []}
    dropped = answer.get("dropped")
    if isinstance(dropped, dict):
        return {**answer, "dropped": {stream: {"messages": None} for stream in dropped}}
    return answer


def _with_flight_errors(batches: Iterator[Answer], reader: StorageReader) -> Iterator[Answer]:
    try:
        yield from batches
    except Exception as error:
        reader.met(error)
        raise _flight_error(error) from error


def _flight_error(error: Exception) -> Exception:
    """The error that a client sees; its `extra_info` is the stable code."""
    text, code = str(error), StorageError.code
    if isinstance(error, StorageError):
        code = error.code
    elif isinstance(error, ValueError):
        code = INVALID_REQUEST
    else:
        text = f"the reader failed: {type(error).__name__}: {error}"
    translated_error: Exception = flight.FlightServerError(text, code.encode())
    return translated_error
