"""Kinds of settings that only a node has: addresses, rates, parts of its memory, priorities of topics."""

from __future__ import annotations

from collections.abc import Mapping

from heliograph.config.access_rules import AccessRule, parse_access_rule
from heliograph.hocon.values import Content
from heliograph.settings.kinds import Integer, Kind, RefusedError, Size, detailed
from heliograph.settings.units import (
    Address,
    Percentage,
    Rate,
    UnixAddress,
    format_rate,
    parse_address,
    parse_listener_address,
    parse_rate,
)


class SizeOrPart(Kind[int | Percentage]):
    """An amount of bytes, or a part in percent of what there is."""

    is_word = True

    def __init__(self, minimum: int) -> None:
        self.size = Size(minimum)
        self.expected = f"{self.size.expected} or a part as in 70%"

    def convert(self, value: Content) -> int | Percentage:
        if isinstance(value, str) and value.endswith("%"):
            return _percentage(value)
        return self.size.convert(value)

    def plain(self, value: int | Percentage) -> str:
        return f"{value.percent}%" if isinstance(value, Percentage) else self.size.plain(value)


class PartOfAll(Kind[Percentage]):
    """A part in percent of what there is."""

    expected = "a part as in 80%"

    def convert(self, value: Content) -> Percentage:
        if isinstance(value, float) and 0 < value <= 1:
            return Percentage(max(1, round(value * 100)))
        if not isinstance(value, str):
            raise RefusedError
        return _percentage(value)

    def plain(self, value: Percentage) -> str:
        return f"{value.percent}%"


class RateLimit(Kind[Rate]):
    """How much in how long; an amount of bytes may have a unit of size."""

    def __init__(self, *, of_bytes: bool = False) -> None:
        self.of_bytes = of_bytes
        examples = "10MB/s or 500KB/1m" if of_bytes else "1000/s or 500/1m"
        self.expected = f"a rate as in {examples}"

    def convert(self, value: Content) -> Rate:
        if not isinstance(value, str):
            raise RefusedError
        return detailed(lambda text: parse_rate(text, of_bytes=self.of_bytes), value)

    def plain(self, value: Rate) -> str:
        return format_rate(value, of_bytes=self.of_bytes)


class Bind(Kind[Address]):
    """An address to listen on."""

    expected = 'an address and port as in "127.0.0.1:1883" or "[::1]:1883", or a port as in 1883 (every interface)'

    def convert(self, value: Content) -> Address:
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 65535:
            value = str(value)
        if not isinstance(value, str):
            raise RefusedError
        return detailed(parse_address, value)


class ListenerBind(Kind[Address | UnixAddress]):
    """An address for clients: of TCP, or the path of a Unix socket."""

    expected = f'{Bind.expected}, or the path of a Unix socket as in "unix:/run/mqtt.sock"'

    def convert(self, value: Content) -> Address | UnixAddress:
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 65535:
            value = str(value)
        if not isinstance(value, str):
            raise RefusedError
        return detailed(parse_listener_address, value)


class AccessRuleText(Kind[AccessRule]):
    expected = 'a rule as in "allow 10.0.0.0/8" or "deny all"'

    def convert(self, value: Content) -> AccessRule:
        if not isinstance(value, str):
            raise RefusedError
        return detailed(parse_access_rule, value)


class PriorityTable(Kind[Mapping[str, int]]):
    """Topics with a priority each."""

    expected = 'an object of topics and priorities from 1 to 255, as in { "alarm/fire" = 10 }'

    def convert(self, value: Content) -> Mapping[str, int]:
        if not isinstance(value, dict):
            raise RefusedError
        priority = Integer(1, 255)
        return {topic: priority.convert(node.value) for topic, node in value.items()}


def _percentage(text: str) -> Percentage:
    digits = text.removesuffix("%").strip()
    if digits == text or not digits.isascii() or not digits.isdigit() or not 1 <= int(digits[:4]) <= 100:
        raise RefusedError
    return Percentage(int(digits))
