"""Single sign-on by OpenID Connect: code flow with PKCE, state and nonce; the role comes from a claim.

What a login under way needs to know travels in a sealed cookie of its browser: others cannot finish it, and nothing
that strangers begin is held here. Authlib and its relatives are imported by the first login.
"""

import asyncio
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

import msgspec

from heliograph.config.single_sign_on import OidcConfig
from heliograph.management.people.provider import Provider, ProviderError
from heliograph.management.web.area import BASE
from heliograph.management.web.errors import ApiError
from heliograph.outbound import Outbound

if TYPE_CHECKING:
    from joserfc.jwk import KeySetSerialization

CALLBACK: Final = "/sso/oidc/callback"
LIFE_S: Final = 600
_NAME_MAX: Final = 200
_ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
_LEEWAY_S: Final = 60


class _BegunLogin(msgspec.Struct, array_like=True, frozen=True):
    state: str
    nonce: str
    verifier: str
    until_s: float


@dataclass(frozen=True, slots=True)
class SsoUser:
    """A user as the provider says.

    Attributes:
        role: By its claim.
    """

    name: str
    role: str


class SingleSignOn:
    """Logs users in who are known to a provider; owned by `PeopleCallers`, and replaced when its settings change.

    Args:
        now_s: The time, in seconds since the epoch.

    Attributes:
        version: What tokens of such logins have as their version.
        page: The address of the page, without a slash at the end.
        base_path: Where the page is below its host, without a slash at the end.
    """

    def __init__(self, settings: OidcConfig, outbound: Outbound, now_s: Callable[[], float] = time.time) -> None:
        self.settings = settings
        self.version = f"sso {hashlib.sha256(repr(settings).encode()).hexdigest()}"
        self._now_s = now_s
        self._key = secrets.token_bytes(32)
        self._provider = Provider(settings, outbound)
        self.page = settings.dashboard_addr.rstrip("/")
        self.base_path = urlsplit(self.page).path
        self._redirect = self.page + BASE + CALLBACK

    async def begin(self) -> tuple[str, str]:
        """Where a browser goes to log in, and the cookie that it needs to come back.

        Raises:
            ApiError: The provider cannot be asked.
        """
        begun = _BegunLogin(
            secrets.token_urlsafe(24), secrets.token_urlsafe(24), secrets.token_urlsafe(48), self._now_s() + LIFE_S
        )
        try:
            endpoint = (await self._provider.metadata())["authorization_endpoint"]
            url = await asyncio.to_thread(self._url, str(endpoint), begun)
        except (ProviderError, KeyError) as error:
            raise _unavailable(error) from None
        return url, self._sealed(begun)

    async def finish(self, state: str, code: str, cookie: str) -> SsoUser:
        """The user who has come back from the provider.

        Raises:
            ApiError: It did not begin in this browser, the provider does not vouch for it, or it has no role.
        """
        begun = self._opened(cookie)
        if begun is None or not hmac.compare_digest(begun.state.encode(), state.encode("utf-8", "surrogatepass")):
            raise ApiError(401, "BAD_TOKEN", "this login did not begin in this browser, or too long ago; begin again")
        try:
            answer = await self._provider.tokens(code, begun.verifier, self._redirect)
            keys = await self._provider.keys()
            try:
                claims = await asyncio.to_thread(self._claims, answer, keys, begun.nonce)
            except UnknownKeyError:
                keys = await self._provider.keys(is_stale=True)
                claims = await asyncio.to_thread(self._claims, answer, keys, begun.nonce)
        except UnknownKeyError:
            raise ApiError(401, "BAD_TOKEN", "the provider does not know the key of its ID token") from None
        except ProviderError as error:
            raise _unavailable(error) from None
        return self._user(claims)

    def _url(self, endpoint: str, begun: _BegunLogin) -> str:
        from authlib.oauth2.rfc6749.parameters import prepare_grant_uri
        from authlib.oauth2.rfc7636 import create_s256_code_challenge

        url: str = prepare_grant_uri(
            endpoint,
            client_id=self.settings.clientid,
            response_type="code",
            redirect_uri=self._redirect,
            scope=" ".join(self.settings.scopes),
            state=begun.state,
            nonce=begun.nonce,
            code_challenge=create_s256_code_challenge(begun.verifier),
            code_challenge_method="S256",
        )
        return url

    def _claims(self, answer: Mapping[str, Any], keys: Mapping[str, Any], nonce: str) -> Mapping[str, Any]:
        """The claims of the ID token, all of them checked.

        Raises:
            ApiError: They do not hold.
            UnknownKeyError: It is signed with another key than these.
        """
        from authlib.oidc.core import CodeIDToken
        from joserfc import jwt
        from joserfc.errors import InvalidKeyIdError, JoseError
        from joserfc.jwk import KeySet

        wanted = {
            "iss": {"essential": True, "value": self.settings.issuer},
            "aud": {"essential": True, "value": self.settings.clientid},
        }
        params = {
            "nonce": nonce,
            "client_id": self.settings.clientid,
            "access_token": answer.get("access_token"),
        }
        try:
            token = jwt.decode(
                str(answer.get("id_token", "")),
                KeySet.import_key_set(cast("KeySetSerialization", dict(keys))),
                list(_ALGORITHMS),
            )
            claims = CodeIDToken(token.claims, token.header, wanted, params)
            claims.validate(now=int(self._now_s()), leeway=_LEEWAY_S)
        except InvalidKeyIdError:
            raise UnknownKeyError from None
        except (JoseError, ValueError, TypeError, KeyError) as error:
            raise ApiError(401, "BAD_TOKEN", f"the ID token of the provider does not hold: {_name(error)}") from None
        return dict(claims)

    def _user(self, claims: Mapping[str, Any]) -> SsoUser:
        name = str(claims.get(self.settings.name_claim) or claims["sub"])
        if len(name) > _NAME_MAX or not name.isprintable():
            raise ApiError(403, "UNAUTHORIZED_ROLE", f"the claim {self.settings.name_claim} is no name of a user")
        values = set(_texts(claims, self.settings.role_claim))
        roles = self.settings.roles
        for role, wanted in (
            ("administrator", roles.administrator),
            ("operator", roles.operator),
            ("viewer", roles.viewer),
        ):
            if values.intersection(wanted):
                return SsoUser(name, role)
        if self.settings.default_role == "none":
            text = f"the claim {self.settings.role_claim} of {name} has no role of dashboard.sso.oidc.roles"
            raise ApiError(403, "UNAUTHORIZED_ROLE", text)
        return SsoUser(name, self.settings.default_role)

    def _sealed(self, begun: _BegunLogin) -> str:
        data = msgspec.json.encode(begun)
        return f"{data.hex()}.{hmac.digest(self._key, data, 'sha256').hex()}"

    def _opened(self, cookie: str) -> _BegunLogin | None:
        try:
            data_hex, _, seal = cookie.partition(".")
            data = bytes.fromhex(data_hex)
            if not hmac.compare_digest(hmac.digest(self._key, data, "sha256"), bytes.fromhex(seal)):
                return None
            begun = msgspec.json.decode(data, type=_BegunLogin)
        except (ValueError, msgspec.MsgspecError):
            return None
        return begun if self._now_s() < begun.until_s else None


class UnknownKeyError(Exception):
    """A token is signed with a key that was not known when keys were asked for."""


def _texts(claims: Mapping[str, Any], path: str) -> list[str]:
    """The texts of a claim; its name may be a path."""
    value: Any = claims.get(path)
    if value is None:
        value = claims
        for name in path.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
    if isinstance(value, str):
        return [value]
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def _name(error: Exception) -> str:
    """What is wrong, without what the token holds."""
    return getattr(error, "description", None) or type(error).__name__


def _unavailable(error: Exception) -> ApiError:
    return ApiError(503, "SERVICE_UNAVAILABLE", f"the provider of single sign-on cannot be asked: {error}")
