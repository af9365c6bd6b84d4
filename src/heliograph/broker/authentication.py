"""The types of the hook point `client.authenticate`: what authenticators get, answer and grant.

An authenticator is a callback of that hook point. It gets the client and the attempt, and answers with a step: accept,
refuse, or challenge the client once more (enhanced authentication, MQTT 5 section 4.12). One that must wait answers
with a `Pending`, as at every hook point that may wait; nothing more is read from the client until it is resolved.
"""

from collections.abc import Mapping

from mypy_extensions import i64, mypyc_attr

from heliograph.mqtt import reason_codes as rc

__all__ = ["AuthAttempt", "AuthOutcome", "AuthStep", "Grants"]


@mypyc_attr(allow_interpreted_subclasses=True)
class AuthAttempt:
    """One client's authentication, from its CONNECT (or the AUTH that begins it again) to its end.

    Args:
        method: The Authentication Method, or None for user name and password.
        data: The Authentication Data of the last packet, or None.
    """

    def __init__(self, method: str | None, data: bytes | None, username: str | None, password: bytes | None) -> None:
        self.method = method
        self.data = data
        self.username = username
        self.password = password
        self.renews = False  # the client is connected and authenticates again
        self.state: object = None  # what the authenticator keeps from one step to the next


class Grants:
    """What an authenticator gives a client that it accepts; applied by the channel when the client is let in.

    A client that authenticates again has the new grants in the place of the old ones.

    Args:
        is_superuser: Whether what it does is not asked about.
        client_attrs: Attributes, merged over those that it has; None for none.
        expire_at_ms: When it is disconnected, in milliseconds since the epoch; 0 for never.
        acl: The rules that it carries, as the node's authorization reads them; None for none.
    """

    def __init__(
        self,
        is_superuser: bool = False,
        client_attrs: Mapping[str, str] | None = None,
        expire_at_ms: int = 0,
        acl: object = None,
    ) -> None:
        self.is_superuser = is_superuser
        self.client_attrs = client_attrs
        self.expire_at_ms: i64 = expire_at_ms
        self.acl: object = acl

    def __repr__(self) -> str:
        return f"Grants(is_superuser={self.is_superuser}, expire_at_ms={int(self.expire_at_ms)})"


class AuthStep:
    """An authenticator's answer.

    Args:
        code: `SUCCESS` to accept the client, `CONTINUE_AUTHENTICATION` to challenge it with `data`; any other: refuse.
        data: The Authentication Data that the client is sent, or None.
    """

    def __init__(self, code: int, data: bytes | None = None, grants: Grants | None = None) -> None:
        self.code = code
        self.data = data
        self.grants = grants

    def __repr__(self) -> str:
        return f"AuthStep({rc.name_of(self.code)})"


# What the accumulator of `client.authenticate` may be: a step, or only its reason code.
AuthOutcome = AuthStep | int


def as_step(outcome: object) -> AuthStep:
    """What a chain's outcome means: a step, a bare reason code, or nothing that could be understood."""
    if isinstance(outcome, AuthStep):
        return outcome
    return AuthStep(outcome if isinstance(outcome, int) else rc.NOT_AUTHORIZED)
