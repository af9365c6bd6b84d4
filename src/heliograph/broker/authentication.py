"""The types of the hook point `client.authenticate`: what authenticators get and answer.

An authenticator is a callback of that hook point. It gets the client and the attempt, and answers with a step: accept,
refuse, or challenge the client once more (enhanced authentication, MQTT 5 section 4.12). One that must wait answers
with a `Pending`, as at every hook point that may wait; nothing more is read from the client until it is resolved.
"""

from mypy_extensions import mypyc_attr

from heliograph.mqtt import reason_codes as rc

__all__ = ["AuthAttempt", "AuthOutcome", "AuthStep"]


@mypyc_attr(allow_interpreted_subclasses=True)
class AuthAttempt:
    """One client's authentication, from its CONNECT (or the AUTH that begins it again) to its end.

    Args:
        method: The Authentication Method, or None for user name and password.
        data: The Authentication Data of the last packet, or None.
        username: The user name, or None.
        password: The password, or None.
    """

    def __init__(self, method: str | None, data: bytes | None, username: str | None, password: bytes | None) -> None:
        self.method = method
        self.data = data
        self.username = username
        self.password = password
        self.renews = False  # the client is connected and authenticates again
        self.state: object = None  # what the authenticator keeps from one step to the next


class AuthStep:
    """An authenticator's answer.

    Args:
        code: `SUCCESS` to accept the client, `CONTINUE_AUTHENTICATION` to challenge it with `data`; any other: refuse.
        data: The Authentication Data that the client is sent, or None.
    """

    def __init__(self, code: int, data: bytes | None = None) -> None:
        self.code = code
        self.data = data

    def __repr__(self) -> str:
        return f"AuthStep({rc.name_of(self.code)})"


# What the accumulator of `client.authenticate` may be: a step, or only its reason code.
AuthOutcome = AuthStep | int


def as_step(outcome: object) -> AuthStep:
    """What a chain's outcome means: a step, a bare reason code, or nothing that could be understood."""
    if isinstance(outcome, AuthStep):
        return outcome
    return AuthStep(outcome if isinstance(outcome, int) else rc.NOT_AUTHORIZED)
