"""Finds out who calls: by an API key, by the token of a login, or by the cookie that a login in a browser left."""

import base64
import binascii
import hmac
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from fastapi import Request

from heliograph.access.people.api_keys import BOOTSTRAPPED, secret_hash_of
from heliograph.config.management_settings import ManagementSettings
from heliograph.config.single_sign_on import OidcConfig
from heliograph.control.proto_v1.people import PEOPLE_USER_SECOND_FACTOR, ApiKeySecrets, SecondFactor
from heliograph.management.asking.nodes import Node, Nodes
from heliograph.management.people import refusals, totp
from heliograph.management.people.back_off import CODES, EVERYWHERE, KEYS, BackOff
from heliograph.management.people.first_user import FirstUser
from heliograph.management.people.known import KnownPeople
from heliograph.management.people.logins import Logins
from heliograph.management.people.refusals import bad_key, key_waits
from heliograph.management.people.same_origin import COOKIE, check_same_origin, is_browser, is_own_page
from heliograph.management.people.sso import SingleSignOn
from heliograph.management.web.area import BASE
from heliograph.management.web.callers import Caller
from heliograph.management.web.errors import ApiError
from heliograph.outbound import Outbound

_LIFE_S: Final = 600.0
_WAITING_MAX: Final = 1_000


class Enrolments:
    """Secrets that are not confirmed yet, one of each user at most; owned by `PeopleCallers`.

    Args:
        now_s: The time, in seconds since the epoch.
    """

    def __init__(self, now_s: Callable[[], float] = time.time) -> None:
        self._now_s = now_s
        self._waiting: OrderedDict[str, tuple[bytes, float]] = OrderedDict()
        self._back_off = BackOff(CODES)

    def begin(self, username: str) -> bytes:
        """A new secret for a user, in the place of one that waited."""
        self._waiting.pop(username, None)
        secret = totp.new_totp_secret()
        self._waiting[username] = secret, self._now_s() + _LIFE_S
        if len(self._waiting) > _WAITING_MAX:
            self._waiting.popitem(last=False)
        return secret

    async def confirm(self, username: str, code: str, node: Node) -> list[str]:
        """Turn the secret on, and end the user's logins; return the recovery codes, which are shown once.

        Raises:
            ApiError: No secret waits, or the code is not one of it.
        """
        secret, until_s = self._waiting.get(username, (b"", 0.0))
        if self._now_s() > until_s:
            raise ApiError(400, "BAD_REQUEST", "no second factor waits for its first code; begin again")
        if not self._back_off.may_try(EVERYWHERE, username):
            raise refusals.too_often()
        step = totp.step_of(secret, code, self._now_s())
        if not step:
            self._back_off.failed(EVERYWHERE, username)
            raise ApiError(400, "BAD_REQUEST", "the code is not one of this secret; is the clock of the device right?")
        codes = totp.new_recovery_codes()
        hashes = tuple(totp.recovery_hash_of(one) for one in codes)
        wanted = SecondFactor(username, secret, hashes, step)
        self._waiting.pop(username, None)  # one that is confirmed at the same time would have other recovery codes
        try:
            await node.ask(PEOPLE_USER_SECOND_FACTOR(wanted))
        except BaseException:
            self._waiting.setdefault(username, (secret, until_s))
            raise
        return codes


_HEADER_MAX: Final = 4_096
_NO_HASH: Final = bytes(32)  # SHA-256 of nothing that is known


class KeyCheck:
    """Knows callers by their API keys; owned by `PeopleCallers`.

    Args:
        known: The keys.
        now_s: The time, in seconds since the epoch.
    """

    def __init__(self, known: KnownPeople, now_s: Callable[[], float] = time.time) -> None:
        self._known = known
        self._now_s = now_s
        self._back_off = BackOff(KEYS)

    async def check(self, encoded: str, address: str) -> ApiKeySecrets:
        """The key of a caller.

        Args:
            encoded: What stands behind `Basic` in the header.
            address: Of the caller.

        Raises:
            ApiError: It is not valid, or too many tries of it failed.
        """
        api_key, secret = _decoded(encoded)
        found = (await self._known.fresh()).keys.get(api_key)
        stored = _NO_HASH if found is None else found.secret_hash
        is_right = hmac.compare_digest(stored, secret_hash_of(secret))
        is_valid = found is not None and is_right and self.counts(found)
        # A secret that was made here has 256 bits: guesses do not find it, so its holder does not wait for theirs.
        is_random = found is not None and not found.key.name.startswith(BOOTSTRAPPED)
        if not (is_valid and is_random) and not self._back_off.may_try(address, api_key):
            raise key_waits().by("api_key", api_key)
        if found is None or not is_valid:
            self._back_off.failed(address, api_key)
            raise bad_key().by("api_key", api_key)
        self._back_off.succeeded(address, api_key)
        return found

    def counts(self, found: ApiKeySecrets) -> bool:
        return found.key.enable and (found.key.expires is None or found.key.expires > self._now_s())


def _decoded(encoded: str) -> tuple[str, str]:
    """A key and its secret.

    Raises:
        ApiError: It is not one.
    """
    try:
        if len(encoded) > _HEADER_MAX:
            raise bad_key()
        api_key, colon, secret = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        raise bad_key() from None
    if not colon or not secret:
        raise bad_key()
    return api_key, secret


_TOKENS: Final = Path("management", "logins.sqlite3")
_NOT_FOR_KEYS: Final = frozenset(
    {
        *("/users", "/users/{username}", "/users/{username}/change_pwd", "/logout", "/api_key", "/api_key/{name}"),
        "/heliograph/users/{username}/second_factor",
    }
)


class PeopleCallers:
    """Knows who calls; owned by the program, which starts and stops it.

    Args:
        settings: Of the process.
        nodes: The nodes; users and keys are those of the one beside this process.
        now_s: The wall clock, in seconds since the epoch.
        outbound: What opens connections to a provider of single sign-on.

    Attributes:
        known: Users and keys.
        logins: Logins of users.
        keys: The check of API keys.
        first: How the first user is made.
        sso: Single sign-on; None where it is not enabled.
        enrolments: Second factors that wait for their first code.
    """

    def __init__(
        self, settings: ManagementSettings, nodes: Nodes, now_s: Callable[[], float], outbound: Outbound
    ) -> None:
        self._settings = settings
        self._outbound = outbound
        self._now_s = now_s
        self.known = KnownPeople(nodes.own())
        self.keys = KeyCheck(self.known, now_s)
        file = Path(settings.data_dir) / _TOKENS
        self.logins = Logins(self.known, file, settings.dashboard.token_expired_time, now_s)
        self.first = FirstUser(self.known, self.logins, nodes.own("the management process"))
        self.enrolments = Enrolments(now_s)
        self.sso: SingleSignOn | None = None
        self._use_sso(settings.dashboard.sso.oidc)

    def start(self) -> None:
        """Make the first user, or say how to make it."""
        self.first.begin(self._settings.dashboard)

    def use(self, settings: ManagementSettings) -> None:
        self._settings = settings
        self.logins.tokens.life_s = settings.dashboard.token_expired_time
        self._use_sso(settings.dashboard.sso.oidc)

    async def stop(self) -> None:
        await self.first.stop()
        await self.known.stop()
        self.logins.stop()

    async def identify(self, request: Request) -> Caller:
        """Who sent a request.

        Raises:
            ApiError: 401, it does not say or does not prove it; 403, another site has sent it.
        """
        header = request.headers.get("authorization")
        if header is None:
            return await self._by_cookie(request)
        scheme, _, value = header.partition(" ")
        if scheme.lower() == "basic":
            return await self._by_key(request, value)
        if scheme.lower() == "bearer":
            return await self._by_token(value.strip())
        raise refusals.no_header(is_browser=is_browser(request))

    async def again(self, caller: Caller) -> Caller:
        """A caller of before as it is now; of single sign-on, which does not say who has gone, as long as it is on.

        Raises:
            ApiError: 401, there is none of that name any more.
        """
        role = caller.role if caller.kind == "sso" and self.sso is not None else ""
        people = await self.known.fresh()
        if caller.kind == "user" and (user := people.users.get(caller.name)) is not None:
            role = user.user.role
        elif caller.kind == "api_key":
            named = (one for one in people.keys.values() if one.key.name == caller.name and self.keys.counts(one))
            role = next((one.key.role for one in named), "")
        if not role:
            raise refusals.gone(caller.name)
        return replace(caller, role=role)

    def _use_sso(self, settings: OidcConfig) -> None:
        if self.sso is not None and self.sso.settings == settings:
            return
        self.sso = SingleSignOn(settings, self._outbound, self._now_s) if settings.enable else None
        self.logins.sso_version = "" if self.sso is None else self.sso.version

    async def _by_key(self, request: Request, value: str) -> Caller:
        found = await self.keys.check(value, address_of(request))
        if _path_of(request) in _NOT_FOR_KEYS:
            raise refusals.not_for_keys().by("api_key", found.key.name)
        return Caller(found.key.name, "api_key", found.key.role)

    async def _by_cookie(self, request: Request) -> Caller:
        token = request.cookies.get(COOKIE)
        if not token:
            raise refusals.no_header(is_browser=is_browser(request))
        check_same_origin(request)
        return await self._by_token(token)

    async def _by_token(self, token: str) -> Caller:
        login, user = await self.logins.user_of(token)
        return (
            Caller(login.username, "sso", login.role)
            if user is None
            else Caller(login.username, "user", user.user.role)
        )


def address_of(request: Request) -> str:
    """The address of a request; that of the proxy, if it is behind one that is not trusted."""
    return request.client.host if request.client is not None else ""


def token_of(request: Request) -> str:
    """The token that a user has sent; empty for none."""
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    return value.strip() if scheme.lower() == "bearer" else request.cookies.get(COOKIE, "")


def device_of(request: Request, people: PeopleCallers) -> str:
    """The cookie of a known device that a page of ours has sent; empty for none."""
    return request.cookies.get(people.logins.devices.cookie, "") if is_own_page(request) else ""


def _path_of(request: Request) -> str:
    """The path of the route, with the names of its parameters."""
    route = request.scope.get("route")
    return str(getattr(route, "path", "")).removeprefix(BASE)
