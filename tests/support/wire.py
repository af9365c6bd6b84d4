"""A notation for packets as bytes, so that a test shows what is on the wire without the encoder under test.

    wire("30 # \"a/b\" { 01 01 } 'hi'")

Hexadecimal digits are bytes, `"text"` is text with its two-byte length, `'text'` is text alone, `{ ... }` is its
content behind its length as a variable byte integer, and `#` is the remaining length of everything behind it.
"""

import re
from typing import Final

_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<hex>(?:[0-9a-fA-F]{2})+)|"(?P<field>[^"]*)"|'(?P<raw>[^']*)'|(?P<mark>[#{}]))\s*"""
)


def wire(notation: str) -> bytes:
    """The bytes that `notation` describes."""
    parts: list[bytearray] = [bytearray()]
    remaining_at: int | None = None
    at = 0
    while at < len(notation):
        token = _TOKEN.match(notation, at)
        if token is None:
            raise ValueError(f"cannot read {notation[at:]!r} in {notation!r}")
        at = token.end()
        if token["hex"] is not None:
            parts[-1] += bytes.fromhex(token["hex"])
        elif token["field"] is not None:
            text = token["field"].encode()
            parts[-1] += len(text).to_bytes(2, "big") + text
        elif token["raw"] is not None:
            parts[-1] += token["raw"].encode()
        elif token["mark"] == "#":
            remaining_at = len(parts[0])
        elif token["mark"] == "{":
            parts.append(bytearray())
        else:
            inner = parts.pop()
            parts[-1] += varint(len(inner)) + inner
    (whole,) = parts
    if remaining_at is None:
        return bytes(whole)
    return bytes(whole[:remaining_at]) + varint(len(whole) - remaining_at) + bytes(whole[remaining_at:])


def varint(value: int) -> bytes:
    """A variable byte integer (MQTT 5 section 1.5.5)."""
    out = bytearray()
    while True:
        value, digit = divmod(value, 128)
        out.append(digit | (0x80 if value else 0))
        if not value:
            return bytes(out)
