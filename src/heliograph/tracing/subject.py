"""What a trace is about: a client, a topic filter, an address or network, or a rule."""

from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Final

from heliograph.mqtt.topic import topic_filter_fault, topic_matches, without_delay

CLIENT: Final = "client"
TOPIC: Final = "topic"
IP_ADDRESS: Final = "ip_address"
RULE: Final = "rule"
KINDS: Final = (CLIENT, TOPIC, IP_ADDRESS, RULE)

_TEXT_BYTES_MAX: Final = 65_535
_LEVELS_MAX: Final = 65_535


@dataclass(frozen=True, slots=True)
class Subject:
    """What a trace is about; made by `parse`.

    Attributes:
        value: The client id, the topic filter, the address or network, or the id of the rule, as it was given.
    """

    kind: str
    value: str
    _network: IPv4Network | IPv6Network | None = field(default=None, compare=False)

    @classmethod
    def parse(cls, kind: str, value: str) -> "Subject":
        """The subject of these texts; `ValueError` says what is valid."""
        if kind not in KINDS:
            raise ValueError(f"a trace is about one of {', '.join(KINDS)}, not {kind!r}")
        if not value or len(value.encode("utf-8", "surrogatepass")) > _TEXT_BYTES_MAX:
            raise ValueError(f"the {kind} of a trace has 1 to {_TEXT_BYTES_MAX} bytes")
        if kind == TOPIC:
            fault = topic_filter_fault(value, _LEVELS_MAX)
            if fault is not None:
                raise ValueError(f"{value!r} is no topic filter: {fault}")
        if kind != IP_ADDRESS:
            return cls(kind, value)
        try:
            return cls(kind, value, ip_network(value, strict=False))
        except ValueError:
            expected = "an address such as 192.0.2.7 or 2001:db8::7, or a network such as 192.0.2.0/24"
            raise ValueError(f"{value!r} is no IP address: expected {expected}") from None

    def is_client(self, clientid: str) -> bool:
        return self.kind == CLIENT and self.value == clientid

    def is_topic(self, topic: str) -> bool:
        """Whether it is about messages to a topic; `$delayed/5/t` is `t` too."""
        if self.kind != TOPIC:
            return False
        return topic_matches(topic, self.value) or (
            topic.startswith("$") and topic_matches(without_delay(topic), self.value)
        )

    def is_rule(self, rule_id: str) -> bool:
        return self.kind == RULE and self.value == rule_id

    def is_host(self, host: str) -> bool:
        network = self._network
        if network is None:
            return False
        try:
            address = ip_address(host.partition("%")[0])
        except ValueError:  # the path of a Unix socket
            return False
        mapped = getattr(address, "ipv4_mapped", None)
        return (address if mapped is None else mapped) in network

    def __str__(self) -> str:
        return f"{self.kind} {self.value}"
