"""Asking a service over HTTP: with limits to time and size, and with errors that say who is to blame."""

import time
from typing import Any, Final

import httpx

from heliograph.rules.schemas.interface import SchemaError
from heliograph.rules.schemas.settings import HttpService, SchemaSourceError

_BODY_SHOWN_BYTES: Final = 200


class ServiceClient:
    """Connections to one service, for all threads; owned by the schema that asks it. They are made when first needed.

    Raises:
        SchemaSourceError: The URL or the file of authorities cannot be used.
    """

    def __init__(self, service: HttpService) -> None:
        self._bytes_max = service.response_bytes_max
        self._timeout_s = service.request_timeout_s
        limits = httpx.Limits(max_connections=service.pool_size)
        try:
            self.url = httpx.URL(service.url)
            transport = httpx.HTTPTransport(verify=service.tls.context(), retries=service.retries_max, limits=limits)
        except (httpx.InvalidURL, OSError, ValueError) as error:
            raise SchemaSourceError(f"the service {service.url!r} cannot be used: {error}") from None
        self._client = httpx.Client(
            transport=transport,
            timeout=httpx.Timeout(service.request_timeout_s, connect=service.connect_timeout_s),
            headers={"accept-encoding": "identity"} | dict(service.headers),
            auth=service.basic_auth,
            trust_env=False,
            follow_redirects=False,
        )

    def ask(self, method: str, url: httpx.URL, body: Any = None) -> bytes:
        """The body of the answer.

        Raises:
            SchemaError: There was no answer, or none of status 200 within the limits.
        """
        content: Any = {} if body is None else {"json": body}
        end_s = time.monotonic() + self._timeout_s
        try:
            with self._client.stream(method, url, **content) as response:
                answer = self._body(response, end_s)
        except (httpx.TimeoutException, TimeoutError):
            raise SchemaError(f"the service at {self.url} gave no answer in time") from None
        except httpx.HTTPError as error:
            raise SchemaError(f"the service at {self.url} cannot be asked: {error}") from None
        if response.status_code != httpx.codes.OK:
            text = answer[:_BODY_SHOWN_BYTES].decode(errors="replace")
            raise SchemaError(f"the service at {self.url} answered with status {response.status_code}: {text}")
        return answer

    def close(self) -> None:
        self._client.close()

    def _body(self, response: httpx.Response, end_s: float) -> bytes:
        """The body as it was sent. httpx limits the time of a piece only, and a service can send pieces for hours."""
        body = bytearray()
        for piece in response.iter_raw():
            body += piece
            if time.monotonic() > end_s:
                raise TimeoutError
            if len(body) > self._bytes_max:
                raise SchemaError(f"the service at {self.url} answered with more than {self._bytes_max:,} bytes")
        return bytes(body)
