"""How callers are refused: the status, code and text of EMQX. One text for each, whatever is wrong behind it."""

from typing import Final

from heliograph.management.web.errors import ApiError

_CHALLENGE: Final = {"www-authenticate": 'Basic Realm="emqx-dashboard"'}


def no_header(*, is_browser: bool = False) -> ApiError:
    """It does not say who calls. Pages of a browser get no challenge: it would ask for a password in a window."""
    text = "an API key and its secret (Basic) or the token of a login (Bearer) is needed in the Authorization header"
    return ApiError(401, "AUTHORIZATION_HEADER_ERROR", text, headers=None if is_browser else _CHALLENGE)


def bad_key() -> ApiError:
    """The key, its secret, or whether it counts."""
    return ApiError(401, "BAD_API_KEY_OR_SECRET", "Check api_key/api_secret", headers=_CHALLENGE)


def key_waits() -> ApiError:
    """Tries of a key that failed too often. EMQX has no other answer than 401 here, and tools know no other."""
    text = "Check api_key/api_secret; too many tries failed, and the next ones wait"
    return ApiError(401, "BAD_API_KEY_OR_SECRET", text, headers={**_CHALLENGE, "retry-after": "10"})


def bad_token() -> ApiError:
    """A token that there is not, or whose user was changed."""
    return ApiError(401, "BAD_TOKEN", "Get token by POST /login")


def token_expired() -> ApiError:
    """A token that was not used for too long."""
    return ApiError(401, "TOKEN_TIME_OUT", "Token expired, get new token by POST /login")


def bad_password() -> ApiError:
    """A login with a wrong name or password: the same for both."""
    return ApiError(401, "BAD_USERNAME_OR_PWD", "Check your username or password")


def bad_code(message: str) -> ApiError:
    """A login whose password is right, without the code of its second factor or with a wrong one."""
    return ApiError(401, "BAD_MFA_TOKEN", message)


def gone(name: str) -> ApiError:
    """Who began something that goes on, and was deleted or disabled since."""
    return ApiError(401, "BAD_TOKEN", f"the user or API key {name} was deleted or disabled, or has expired")


def too_often() -> ApiError:
    """Tries that failed too often: the next one has to wait."""
    text = "too many tries failed; wait a minute, and check name, password and address"
    return ApiError(429, "TOO_MANY_REQUESTS", text, headers={"retry-after": "60"})


def too_busy() -> ApiError:
    """Too many passwords wait for their check."""
    text = "too many logins wait for the check of their password; try again"
    return ApiError(503, "SERVICE_UNAVAILABLE", text, headers={"retry-after": "5"})


def not_for_keys() -> ApiError:
    """What API keys may never do."""
    return ApiError(401, "API_KEY_NOT_ALLOW", "This API Key don't have permission to access this resource")
