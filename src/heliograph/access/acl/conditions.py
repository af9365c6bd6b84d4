"""Which clients a rule is about: conditions on a client, evaluated once for each client and set of rules.

A regular expression works on bytes, as PCRE without its Unicode mode, and has little time: a client must not make one
run for ever by its name. One that has not answered in time leaves open whether it matches. A rule that denies counts as
matched then, a rule that allows does not.
"""

import time
from collections.abc import Callable, Sequence
from functools import cached_property
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING, Final, TypeAlias

from heliograph.broker.client import ClientInfo
from heliograph.rules.errors import EvaluationFault

if TYPE_CHECKING:
    from heliograph.rules.bounded_pattern import BoundedPattern

_CLIENT_S: Final = 0.05

Address: TypeAlias = IPv4Address | IPv6Address
Field: TypeAlias = Callable[[ClientInfo], str | None]


class CheckedClient:
    """The client that conditions are checked for, and the time that regular expressions may still take for it."""

    def __init__(self, client: ClientInfo) -> None:
        self.client = client
        self._left_s = _CLIENT_S

    @cached_property
    def address(self) -> Address | None:
        try:
            return ip_address(self.client.peerhost)
        except ValueError:
            return None

    def search(self, pattern: "BoundedPattern", text: bytes) -> bool | None:
        """Whether a text holds a match; None if the time was too short."""
        if self._left_s <= 0:
            return None
        begin = time.perf_counter()
        try:
            return pattern.search(text) is not None
        except (EvaluationFault, MemoryError):
            return None
        finally:
            self._left_s -= time.perf_counter() - begin


class Condition:
    """What a client must be for a rule to be about it."""

    def holds(self, checked: CheckedClient) -> bool | None:
        """None if that took too long."""
        raise NotImplementedError


class Equals(Condition):
    """A field is exactly a text; one that the client does not have never is."""

    def __init__(self, field: Field, text: str) -> None:
        self.field = field
        self.text = text

    def holds(self, checked: CheckedClient) -> bool | None:
        return self.field(checked.client) == self.text


class MatchesExpression(Condition):
    """A field holds a match of a regular expression, anywhere; raises `ValueError` for a text that is not one."""

    def __init__(self, field: Field, expression: str) -> None:
        self._field = field
        from heliograph.rules.bounded_pattern import pattern_of_text  # nodes without such rules do not load it

        self._pattern = pattern_of_text(expression)

    def holds(self, checked: CheckedClient) -> bool | None:
        text = self._field(checked.client)
        return False if text is None else checked.search(self._pattern, text.encode("utf-8", "surrogatepass"))


class InNetwork(Condition):
    """The address is one, or lies in a network: 10.0.0.1, 10.0.0.0/8, 2001:db8::/48. IPv4 and IPv6 are never the same.

    Raises:
        ValueError: It is not one.
    """

    def __init__(self, network: str) -> None:
        address, slash, length = network.partition("/")
        if "%" in address or (slash and not (length.isascii() and length.isdecimal())):
            raise ValueError(f"{network!r} is no address and no network; valid are 10.0.0.1, 10.0.0.0/8, 2001:db8::/48")
        try:
            parsed = ip_network(network, strict=False)
        except ValueError:
            raise ValueError(
                f"{network!r} is no address and no network; valid are 10.0.0.1, 10.0.0.0/8, 2001:db8::/48"
            ) from None
        self._version = parsed.version
        self._shift = parsed.max_prefixlen - parsed.prefixlen
        self._prefix = int(parsed.network_address) >> self._shift

    def holds(self, checked: CheckedClient) -> bool | None:
        address = checked.address
        return address is not None and address.version == self._version and int(address) >> self._shift == self._prefix


class AllOf(Condition):
    """True for an empty list."""

    def __init__(self, conditions: Sequence[Condition]) -> None:
        self._conditions = tuple(conditions)

    def holds(self, checked: CheckedClient) -> bool | None:
        answer: bool | None = True
        for condition in self._conditions:
            held = condition.holds(checked)
            if held is False:
                return False
            answer = answer and held
        return answer


class AnyOf(Condition):
    """False for an empty list."""

    def __init__(self, conditions: Sequence[Condition]) -> None:
        self._conditions = tuple(conditions)

    def holds(self, checked: CheckedClient) -> bool | None:
        answer: bool | None = False
        for condition in self._conditions:
            held = condition.holds(checked)
            if held:
                return True
            answer = None if held is None else answer
        return answer


def clientid_of(client: ClientInfo) -> str | None:
    return client.clientid


def username_of(client: ClientInfo) -> str | None:
    return client.username


def zone_of(client: ClientInfo) -> str | None:
    return client.zone


def listener_of(client: ClientInfo) -> str | None:
    return client.listener


def attribute_of(name: str) -> Field:
    return lambda client: client.client_attrs.get(name)
