"""Keys of tokens that an issuer publishes as a JWKS over HTTP: fetched at the start, and again from time to time.

Keys that were fetched stay until newer ones are: an issuer that is down for an hour refuses no client. It is a backend
that is down then, with its alarm.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

from heliograph.access.authentication.jwt_keys import KeyUnusableError, VerifyingKey, jwks_keys
from heliograph.access.backends.http import HttpQuestion, ask_http, http_client, http_fault
from heliograph.access.backends.live import Backends
from heliograph.config.authentication import JwtConfig
from heliograph.observe.metric import Sample
from heliograph.processes.backoff import Backoff
from heliograph.settings.tls import ClientTls

_FETCH_S: Final = 10.0
_FIRST_S: Final = 1.0  # clients that come before there are keys are refused; a node does not wait longer for them
_IDLE_S: Final = 1.0  # the next fetch is minutes away
_BACKOFF: Final = Backoff(1.0, 15.0)
_OK: Final = 200


class JwksKeys:
    """The keys of one issuer; owned by an authenticator. Making it raises `OSError` for a bad file of TLS."""

    kind = "jwks"

    def __init__(self, name: str, settings: JwtConfig, backends: Backends) -> None:
        self.name = name
        self.server = urlsplit(settings.endpoint).netloc.rpartition("@")[2]
        self._settings = settings
        self._backends = backends
        self._dialer = backends.outbound.dialer(name)
        self._tls = (settings.tls or ClientTls()).context() if settings.endpoint.startswith("https:") else False
        self._keys: Sequence[VerifyingKey] = ()
        self._why = "its keys were not fetched yet"
        self._was_tried = asyncio.Event()
        self._fetching: asyncio.Task[None] | None = None

    def all(self) -> Sequence[VerifyingKey]:
        return self._keys

    def are_current(self) -> bool:
        """New ones are fetched."""
        return True

    async def start(self) -> None:
        """Begin to fetch them, and wait a moment for the first ones."""
        self._backends.add(self)
        self._fetching = asyncio.get_running_loop().create_task(self._keep_fresh(), name=self.name)
        with suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_S):
                await self._was_tried.wait()

    async def stop(self) -> None:
        task, self._fetching = self._fetching, None
        if task is None:
            return
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        self._backends.remove(self)

    def health(self) -> str:
        return self._why

    def samples(self) -> list[Sample]:
        return []

    async def _keep_fresh(self) -> None:
        failures = 0
        while True:
            self._why = await self._fetch()
            self._was_tried.set()
            if self._why:
                failures += 1
                self._backends.down(self, self._why)
            else:
                failures = 0
                self._backends.up(self)
            pause_s = _BACKOFF.pause_s(failures) if failures else self._settings.refresh_interval
            await asyncio.sleep(min(pause_s, self._settings.refresh_interval))  # the keys may be other ones then

    async def _fetch(self) -> str:
        """Fetch new keys; return what prevents it."""
        settings = self._settings
        question = HttpQuestion("GET", settings.endpoint, tuple(settings.headers.items()))
        try:
            async with (
                asyncio.timeout(_FETCH_S),
                http_client(self._dialer, self._tls, settings.pool_size, _FETCH_S, _IDLE_S) as client,
            ):
                answer = await ask_http(client, question)
            if answer.status != _OK:
                return f"the issuer answers with status {answer.status}"
            self._keys = jwks_keys(answer.body)
        except TimeoutError:
            return f"no answer within {_FETCH_S:g} s"
        except KeyUnusableError as error:
            return str(error)
        except Exception as error:  # noqa: BLE001 - whatever a library raises: the former keys stay
            return http_fault(error).text
        return ""

    def __repr__(self) -> str:
        return f"JwksKeys({self.server}, {len(self._keys)} keys)"
