"""What authenticators read from the answers of others, be they rows, documents, claims or bodies.

What cannot be understood is never an acceptance.
"""

import re
from collections.abc import Mapping
from typing import Final

from heliograph.access.acl.carried import CarriedAcl, carried_acl
from heliograph.access.acl.errors import AclError
from heliograph.broker.authentication import AuthStep, Grants
from heliograph.mqtt import reason_codes as rc

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,40}")
_ATTRIBUTE: Final = re.compile(r"[A-Za-z0-9]+[A-Za-z0-9_-]*")
# Seconds since the epoch have eleven digits until the year 5138: what has more is milliseconds.
_SECONDS_MAX: Final = 100_000_000_000


class ResultError(Exception):
    """An answer that accepts a client cannot be used; it refuses the client, or leaves it to the next authenticator."""

    def __init__(self, problem: str, *, refuses: bool = False) -> None:
        super().__init__(problem)
        self.refuses = refuses

    def step(self) -> AuthStep | None:
        return AuthStep(rc.BAD_USERNAME_OR_PASSWORD) if self.refuses else None


def is_superuser(value: object) -> bool:
    """Whether a value of `is_superuser` says so: true, "true", an integer from 1 on, or the text of one."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return value == "true" or (_INTEGER.fullmatch(value) is not None and int(value) >= 1)
    return isinstance(value, int) and value >= 1


def client_attrs(value: object) -> Mapping[str, str]:
    """The attributes of a client in an answer; bad names are left out. `ResultError` if it is no map of texts."""
    if not isinstance(value, Mapping):
        raise ResultError("client_attrs is no object")
    found: dict[str, str] = {}
    for name, text in value.items():
        if not isinstance(name, str) or _ATTRIBUTE.fullmatch(name) is None:
            continue
        if not isinstance(text, str):
            raise ResultError(f"the client attribute {name} is no text")
        found[name] = text
    return found


def expire_at_ms(value: object, now_s: int) -> int:
    """When a client is disconnected, in ms, of seconds; `ResultError` if they are no integer, past, or milliseconds."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise ResultError("expire_at is no integer", refuses=True)
    if value <= now_s:
        raise ResultError("expire_at is in the past", refuses=True)
    if value >= _SECONDS_MAX:
        raise ResultError("expire_at is no time in seconds", refuses=True)
    return value * 1000


def accepted(grants: Grants) -> AuthStep:
    return AuthStep(rc.SUCCESS, grants=grants)


def carried_rights(
    value: object, source: str, expires_s: float | None, *, takes_map: bool = False
) -> CarriedAcl | None:
    """The rights in an answer: a list of rules, or with `takes_map` a map of topics. Raises `ResultError`."""
    if isinstance(value, Mapping) and not takes_map:
        raise ResultError("acl is no list of rules", refuses=True)
    try:
        carried = carried_acl(value, expires_s, source)
    except AclError as error:
        raise ResultError(str(error), refuses=True) from None
    if carried is None:
        raise ResultError("acl is null, which is no list of rules", refuses=True)
    return carried
