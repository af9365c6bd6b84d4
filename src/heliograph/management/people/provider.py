"""Asks a provider of OpenID Connect: what it says about itself, its keys, and the tokens for a code."""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote_plus

from heliograph.config.single_sign_on import OidcConfig
from heliograph.outbound import Outbound
from heliograph.outbound.dialing import denial_in
from heliograph.settings.secrets import SecretError

if TYPE_CHECKING:
    import httpx

_TIMEOUT_S: Final = 10.0
_BYTES_MAX: Final = 1 << 20
_KNOWN_S: Final = 3_600.0  # for so long what it says is not asked for again
_AGAIN_S: Final = 10.0  # nor keys, where a token has one that is not known


class ProviderError(Exception):
    """The provider does not answer, or answers what none would; the message has nothing that it sent."""


class Provider:
    """One provider; owned by `SingleSignOn`. Answers are kept for an hour."""

    def __init__(self, settings: OidcConfig, outbound: Outbound, clock: Callable[[], float] = time.monotonic) -> None:
        self._dialer = outbound.dialer("dashboard.sso.oidc")
        self._settings = settings
        self._clock = clock
        self._metadata: tuple[float, Mapping[str, Any]] | None = None
        self._keys: tuple[float, Mapping[str, Any]] | None = None
        self._asked_again_s = -_AGAIN_S
        self._lock = asyncio.Lock()

    async def metadata(self) -> Mapping[str, Any]:
        """What it says about itself.

        Raises:
            ProviderError: It does not, or says it is another one.
        """
        async with self._lock:
            if self._metadata is None or self._clock() - self._metadata[0] > _KNOWN_S:
                issuer = self._settings.issuer
                found = await self._asked("GET", f"{issuer.rstrip('/')}/.well-known/openid-configuration")
                if found.get("issuer") != issuer:
                    raise ProviderError(f"it names itself another issuer than {issuer}")
                for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
                    if not isinstance(found.get(name), str):
                        raise ProviderError(f"it does not say its {name}")
                self._metadata = self._clock(), found
            return self._metadata[1]

    async def keys(self, *, is_stale: bool = False) -> Mapping[str, Any]:
        """The keys that it signs with.

        Args:
            is_stale: Whether one is missing in those of before.

        Raises:
            ProviderError: It does not say.
        """
        metadata = await self.metadata()
        async with self._lock:
            now_s = self._clock()
            is_asked_again = is_stale and now_s - self._asked_again_s >= _AGAIN_S
            if self._keys is None or now_s - self._keys[0] > _KNOWN_S or is_asked_again:
                self._asked_again_s = now_s if is_asked_again else self._asked_again_s
                self._keys = now_s, await self._asked("GET", metadata["jwks_uri"])
            return self._keys[1]

    async def tokens(self, code: str, verifier: str, redirect_uri: str) -> Mapping[str, Any]:
        """The tokens for a code.

        Raises:
            ProviderError: It gives none.
        """
        metadata = await self.metadata()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": verifier,
            "client_id": self._settings.clientid,
        }
        auth = None
        try:
            secret = self._settings.secret.reveal()
        except SecretError as error:
            raise ProviderError(f"dashboard.sso.oidc.secret: {error}") from None
        if secret:
            methods = metadata.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
            if "client_secret_basic" in methods:
                auth = (quote_plus(self._settings.clientid), quote_plus(secret))  # RFC 6749, section 2.3.1
            else:
                form["client_secret"] = secret
        return await self._asked("POST", metadata["token_endpoint"], form, auth)

    async def _asked(
        self, method: str, url: str, form: Mapping[str, str] | None = None, auth: tuple[str, str] | None = None
    ) -> Mapping[str, Any]:
        import httpx
        import orjson

        from heliograph.outbound.http import AsyncDialedTransport

        try:
            context = await asyncio.to_thread(self._settings.ssl.context)
            async with (
                asyncio.timeout(_TIMEOUT_S),
                httpx.AsyncClient(
                    transport=AsyncDialedTransport(self._dialer, context), timeout=_TIMEOUT_S, trust_env=False
                ) as client,
                client.stream(method, url, data=form, auth=auth, headers={"accept": "application/json"}) as response,
            ):
                body = await _body(response)
            if response.status_code != httpx.codes.OK:
                raise ProviderError(f"it answers {method} {_place(url)} with {response.status_code}")
            answer = orjson.loads(body)
        except (httpx.HTTPError, httpx.InvalidURL, OSError, TimeoutError) as error:
            if denial_in(error) is not None:  # its text has addresses, for the log alone: any browser gets this one
                raise ProviderError(f"{_place(url)}: the settings outbound deny it, the log says why") from None
            raise ProviderError(f"{_place(url)}: {type(error).__name__}") from None
        except orjson.JSONDecodeError:
            raise ProviderError(f"what {_place(url)} answers is no JSON") from None
        if not isinstance(answer, dict):
            raise ProviderError(f"what {_place(url)} answers is no object")
        return answer


async def _body(response: "httpx.Response") -> bytes:
    body = b""
    async for part in response.aiter_bytes():
        body += part
        if len(body) > _BYTES_MAX:
            raise ProviderError("its answer is too long")
    return body


def _place(url: str) -> str:
    return url.partition("?")[0][:200]
