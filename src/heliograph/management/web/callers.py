"""Who calls, and what they may do."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol

from fastapi import Request

from heliograph.management.web import roles
from heliograph.management.web.errors import ApiError


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent a request.

    Attributes:
        kind: `user`, `sso` for a user of single sign-on, `api_key`, or `nobody`.
        role: The role; see `web.roles`.
    """

    name: str
    kind: str
    role: str

    @property
    def owner(self) -> str:
        """Whose share of what there is little of it takes."""
        return f"{self.kind} {self.name}"

    def may(self, scope: str, method: str = "GET") -> bool:
        """Whether its role allows that scope, with a method of HTTP."""
        return roles.may(self.role, scope, method)


NOBODY: Final = Caller("", "nobody", "")


class Callers(Protocol):
    """Finds out who calls."""

    async def identify(self, request: Request) -> Caller:
        """Who sent a request.

        Raises:
            ApiError: 401, the request does not say or does not prove it.
        """

    async def again(self, caller: Caller) -> Caller:
        """A caller of before as it is now, whether or not its login has ended.

        Raises:
            ApiError: 401, there is none of that name any more.
        """


async def authorize(request: Request, scope: str) -> None:
    """Find the caller of a request, and check that it may do what the scope of the route says.

    It is done before anything of the body is read. The caller is then in `request.state.caller`.

    Raises:
        ApiError: 401, the caller is not known; 403, its role does not allow it.
    """
    callers: Callers = request.app.state.callers
    caller = await callers.identify(request)
    request.state.caller = caller
    require(caller, scope, request.method)


def still_may(request: Request, *scopes: str) -> Callable[[], Awaitable[None]]:
    """Says later on whether the caller of a request, which has scopes now, still has them.

    Returns:
        What raises `ApiError` where it has not.
    """
    callers: Callers = request.app.state.callers
    caller: Caller = request.state.caller
    method = request.method

    async def check() -> None:
        now = await callers.again(caller)
        for scope in scopes:
            require(now, scope, method)

    return check


def require(caller: Caller, scope: str, method: str) -> None:
    """Check that a caller may do what a scope says.

    Raises:
        ApiError: 403, its role does not allow it.
    """
    if not caller.may(scope, method):
        raise ApiError(
            403,
            "UNAUTHORIZED_ROLE",
            f"this needs the scope {scope}, which the role {caller.role} of {caller.name} does not have",
        )
