"""Variform expressions over a client that connects: preconditions, and the checks of `cinfo`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from heliograph.broker.authentication import AuthAttempt
from heliograph.broker.client import ClientInfo
from heliograph.rules.values import UNDEFINED, Value
from heliograph.rules.variform import Variform, VariformError

_Read = Callable[[ClientInfo, AuthAttempt], Value]

# A client without a certificate has no name in one: what reads it does not match.
_READERS: Final[Mapping[str, _Read]] = {
    "clientid": lambda client, attempt: client.clientid,
    "username": lambda client, attempt: attempt.username,
    "password": lambda client, attempt: None if attempt.password is None else attempt.password.decode(errors="replace"),
    "peerhost": lambda client, attempt: client.peerhost,
    "peerport": lambda client, attempt: client.peerport,
    "peername": lambda client, attempt: client.peername,
    "protocol": lambda client, attempt: "mqtt",
    "proto_name": lambda client, attempt: client.proto_name,
    "proto_ver": lambda client, attempt: int(client.version),
    "zone": lambda client, attempt: client.zone,
    "listener": lambda client, attempt: client.listener,
    "mountpoint": lambda client, attempt: client.mountpoint,
    "cert_common_name": lambda client, attempt: _unless_none(client.common_name),
    "cn": lambda client, attempt: _unless_none(client.common_name),
    "cert_subject": lambda client, attempt: _unless_none(client.subject),
    "dn": lambda client, attempt: _unless_none(client.subject),
    "client_attrs": lambda client, attempt: dict(client.client_attrs),
    "is_superuser": lambda client, attempt: client.is_superuser,
}
VARIABLES: Final = tuple(_READERS)
"""What the expressions may read."""


class ClientExpression:
    """Matches clients for which its text renders `true`; raises `VariformSyntaxError`."""

    def __init__(self, text: str) -> None:
        self._expression = Variform(text)
        wanted = self._expression.variables()
        self._readers = [(name, read) for name, read in _READERS.items() if name in wanted]

    def matches(self, client: ClientInfo, attempt: AuthAttempt) -> bool:
        """What fails does not match."""
        bindings = {name: value for name, read in self._readers if (value := read(client, attempt)) is not UNDEFINED}
        try:
            return self._expression.render(bindings) == "true"
        except VariformError:
            return False

    def __repr__(self) -> str:
        return f"ClientExpression({self._expression.text!r})"


def expression_faults(texts: Sequence[str]) -> Iterator[str]:
    """What is wrong with each expression that can never match: its syntax, its functions, its variables."""
    for text in texts:
        try:
            expression = Variform(text)
            expression.check_calls()
        except VariformError as error:
            yield str(error)
            continue
        unknown = sorted(expression.variables() - set(VARIABLES))
        if unknown:
            yield f"there is no variable {unknown[0]}; there are {', '.join(VARIABLES)}"


def _unless_none(value: str | None) -> Value:
    return UNDEFINED if value is None else value
