"""What sinks of Amazon Web Services share: the client of a service, its connections, and what its errors mean.

botocore, which boto3 is made of, signs requests and knows the services; the connections are ours, so that the address
that is connected to is the one that was checked, and no proxy, file or variable of the environment and no metadata
service of a machine has a say. It tries nothing again by itself.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from ssl import SSLContext
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from heliograph.outbound.http_connection import HttpConnections, HttpUrl, header_line
from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.sinks.http_delivery import RefusedRequestError
from heliograph.pipeline.sinks.interface import INSTALL
from heliograph.pipeline.sinks.messages import MessageSink, OnTheirWay, OutgoingMessage
from heliograph.pipeline.sinks.retry import TransientError
from heliograph.pipeline.tls import tls_context
from heliograph.settings.aws import REGION_SUMMARY, Region, region_of
from heliograph.settings.fields import optional, required, setting
from heliograph.settings.kinds import Duration, SecretText, Text
from heliograph.settings.secrets import Secret
from heliograph.settings.tls import ClientTls

if TYPE_CHECKING:
    from botocore.awsrequest import AWSPreparedRequest, AWSResponse

_TEXT_MAX: Final = 300
_ANSWER_BYTES_MAX: Final = 16 << 20
_TOO_LARGE: Final = 413
# What passes by itself; besides, all errors of the server (5xx) and codes that speak of throttling.
_PASSING: Final = frozenset(
    {
        "InternalFailure",
        "InternalServerError",
        "LimitExceededException",
        "PriorRequestNotComplete",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestTimeout",
        "ServiceUnavailable",
        "SlowDown",
        "TooManyRequestsException",
    }
)
_OF_ROWS: Final = frozenset(
    {
        "AWS.SimpleQueueService.BatchRequestTooLong",
        "BatchRequestTooLong",
        "InvalidArgumentException",
        "InvalidMessageContents",
        "InvalidParameterValue",
        "ItemCollectionSizeLimitExceededException",
        "SerializationException",
        "ValidationException",
    }
)
_DENIED: Final = frozenset({"AccessDenied", "AccessDeniedException", "AccessDeniedByResourcePolicyException"})
# A variable of botocore's settings that comes from nowhere.
_UNSET: Final = (None, None, None, None)


@dataclass(frozen=True, kw_only=True)
class AwsSink(MessageSink):
    service: ClassVar[str]

    endpoint: str = required(
        Text("a URL that begins with http:// or https://, without a login", r"https?://[^\s?#$@]+"),
        "Where the service is.",
    )
    region: str | None = optional(Region(), REGION_SUMMARY)
    username: str | None = required(
        Text("the id of an access key", r"\S+"), "The id of the access key.", name="access_key_id"
    )
    password: Secret | None = required(SecretText(), "Its secret access key.", name="secret_access_key")
    timeout_s: float = setting(Duration(0.001, needs_unit=True), 30.0, "How long an answer may take.", name="timeout")

    @abstractmethod
    def connected(self) -> AbstractContextManager["AwsLink"]:
        """See `MessageSink.connected`; it is open when the service lets us in and what rows go to is there."""


class AwsLink(ABC):
    """A client of a service and its connection. Owned by the thread that enters it."""

    entries_max: ClassVar[int]
    bytes_max: ClassVar[int]

    def __init__(self, sink: AwsSink) -> None:
        logging.getLogger("botocore").setLevel(logging.WARNING)  # below, it writes whole requests into the log
        self._sink = sink
        self._connections = HttpConnections(sink.dialer, self._context, sink.timeout_s, _ANSWER_BYTES_MAX)
        self._client = self._new_client()
        self._client.meta.events.register("before-send", self._exchange)

    def __enter__(self) -> Self:
        try:
            self.check()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self._connections.__exit__(None, None, None)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._sink.endpoint})"

    @abstractmethod
    def check(self) -> None:
        """See whether the service lets us in and what rows go to is there.

        Raises:
            SinkError: It does not, or is not.
            TransientError: The service is away.
        """

    @abstractmethod
    def put(self, numbers: Sequence[int], outgoing: OnTheirWay) -> None:
        """Send some messages in one request, and say of each what became of it.

        Raises:
            RefusedRequestError: One of those that still wait is at fault.
        """

    @abstractmethod
    def size_of(self, message: OutgoingMessage) -> int:
        """Bytes of a message that count for the limit of a request."""

    def send(self, outgoing: OnTheirWay) -> None:
        """See `MessageLink`. No request follows one of which something is left, so that little changes its order."""
        for numbers in self._requests(outgoing):
            if not self._bring(numbers, outgoing):
                return

    def _requests(self, outgoing: OnTheirWay) -> Iterator[Sequence[int]]:
        numbers: list[int] = []
        size = 0
        for number, message in list(outgoing.waiting.items()):
            added = self.size_of(message)
            if numbers and (len(numbers) == self.entries_max or size + added > self.bytes_max):
                yield numbers
                numbers, size = [], 0
            numbers.append(number)
            size += added
        if numbers:
            yield numbers

    def _bring(self, numbers: Sequence[int], outgoing: OnTheirWay) -> bool:
        """Send messages, halving requests that are refused; whether it is known of each what becomes of it."""
        try:
            self.put(numbers, outgoing)
        except RefusedRequestError as error:
            sent = [number for number in numbers if number in outgoing.waiting]
            if len(sent) == 1:
                outgoing.refuse(sent[0], str(error))
                return True
            half = len(sent) // 2
            return self._bring(sent[:half], outgoing) and self._bring(sent[half:], outgoing)
        return not any(number in outgoing.waiting for number in numbers)

    def look(self, operation: str, missing: Sequence[str], **arguments: Any) -> dict[str, Any]:
        """What the service says of something; nothing where we may not ask, and where it is one of the codes `missing`.

        Raises:
            SinkError: It does not let us in.
            TransientError: It is away.
        """
        from botocore.exceptions import ClientError

        try:
            return self.call(operation, **arguments)
        except RefusedRequestError as error:
            raise SinkError(f"{self._sink.target}: {error}") from error
        except SinkError as error:
            cause = error.__cause__
            if isinstance(cause, ClientError) and _code(cause) in {*_DENIED, *missing}:
                return {}
            raise

    def call(self, operation: str, **arguments: Any) -> dict[str, Any]:
        """Ask the service.

        Raises:
            RefusedRequestError: It does not take what is in the request.
            SinkError: It does not let us in, or what was named is not there.
            TransientError: It is away, busy, or answers what it should not.
        """
        from botocore.exceptions import BotoCoreError, ClientError
        from botocore.parsers import ResponseParserError

        target = self._sink.target
        try:
            with self._sink.connecting():
                found: dict[str, Any] = getattr(self._client, operation)(**arguments)
                return found
        except ClientError as error:
            raise self._translated(error) from error
        # An answer of other types than the service's makes botocore stumble.
        except (ResponseParserError, AttributeError, TypeError, ValueError, LookupError, RecursionError) as error:
            raise TransientError(f"{target}: this is not an answer of the service: {str(error)[:_TEXT_MAX]}") from error
        except BotoCoreError as error:
            raise SinkError(f"{target}: {str(error)[:_TEXT_MAX]}") from error

    def _new_client(self) -> Any:
        sink, session = self._sink, _new_session()
        try:
            return session.create_client(
                sink.service,
                region_name=sink.region or region_of(sink.endpoint),
                endpoint_url=sink.endpoint,
                aws_access_key_id=sink.username,
                aws_secret_access_key=sink.password_text,
                config=_client_config(),
            )
        except ValueError as error:
            raise SinkError(f"{sink.target}: {error}") from error

    def _translated(self, error: Any) -> Exception:
        code, status = _code(error), error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        text = sentence_of_error(code, error.response.get("Error", {}).get("Message"))
        if status >= 500 or is_passing(code):
            return TransientError(f"{self._sink.target}: {text}")
        if code in _OF_ROWS or status == _TOO_LARGE:
            return RefusedRequestError(text)
        return SinkError(f"{self._sink.target}: {text}")

    def _exchange(self, request: "AWSPreparedRequest", **_more: object) -> "AWSResponse":
        """Send a signed request over a connection of ours; botocore takes what comes of it for the answer."""
        from botocore.awsrequest import AWSResponse

        url = HttpUrl.of(request.url)
        headers = {"Host": url.origin.authority, **{name: _text(value) for name, value in request.headers.items()}}
        lines = b"".join(header_line(name, value) for name, value in headers.items())
        body = request.body.encode() if isinstance(request.body, str) else request.body or b""
        connection = self._connections.borrow(url.origin)
        connection.send(b"%s %s HTTP/1.1\r\n%s\r\n%s" % (request.method.encode(), url.target.encode(), lines, body))
        answer = connection.receive()
        self._connections.give_back(connection)
        fields = {name.decode("latin-1"): value.decode("latin-1") for name, value in answer.headers.items()}
        return AWSResponse(request.url, answer.status, fields, _Body(answer.content))

    def _context(self) -> SSLContext:
        return tls_context(self._sink.tls or ClientTls(), SinkError)


class _Body:
    """The body of an answer, as botocore reads one."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def stream(self, *_arguments: object, **_more: object) -> Iterator[bytes]:
        yield self._content


def is_passing(code: str) -> bool:
    """Whether what an error says passes by itself."""
    return code in _PASSING or "thrott" in code.lower()


def is_of_row(code: str) -> bool:
    """Whether an error of a service speaks of what it was sent."""
    return code in _OF_ROWS


def sentence_of_error(code: str, message: object) -> str:
    """What a service says of an error."""
    return " ".join(f"{code}: {message or ''}".split())[:_TEXT_MAX].rstrip(": ")


def _code(error: Any) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _text(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


@cache
def _descriptions() -> Any:
    """What reads how services are described, and keeps it: that takes a tenth of a second for each."""
    from botocore.loaders import create_loader

    return create_loader()


def _new_session() -> Any:
    try:
        from botocore.session import Session
    except ImportError as error:
        raise SinkError(f"services of Amazon need boto3: {INSTALL}") from error
    # Not of files and variables, which may name other credentials, endpoints and programs to run.
    session = Session(session_vars=dict.fromkeys(("profile", "config_file", "credentials_file"), _UNSET))
    session.register_component("data_loader", _descriptions())
    return session


def _client_config() -> Any:
    from botocore.config import Config

    return Config(
        retries={"total_max_attempts": 1, "mode": "standard"},
        defaults_mode="legacy",  # "auto" asks a machine's metadata service
        parameter_validation=False,
        ignore_configured_endpoint_urls=True,
        use_fips_endpoint=False,
        use_dualstack_endpoint=False,
    )
