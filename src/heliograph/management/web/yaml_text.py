"""Plain values as YAML: blocks of mappings and lists, with scalars as JSON has them, which is YAML too."""

import re
from collections.abc import Iterator
from typing import Any, Final

import orjson

_PLAIN_KEY: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]*")
_WORDS: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


def yaml_text(value: Any) -> str:
    """A value as YAML."""
    return "\n".join(_lines(value)) + "\n"


def _lines(value: Any) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for name, one in value.items():
            yield from _entry(f"{_key(name)}:", one)
    elif isinstance(value, list) and value:
        for one in value:
            first, *rest = _lines(one)
            yield f"- {first}"
            yield from (f"  {line}" for line in rest)
    else:
        yield orjson.dumps(value).decode()


def _entry(head: str, value: Any) -> Iterator[str]:
    if isinstance(value, dict | list) and value:
        yield head
        yield from (f"  {line}" for line in _lines(value))
    else:
        yield f"{head} {orjson.dumps(value).decode()}"


def _key(name: str) -> str:
    is_plain = _PLAIN_KEY.fullmatch(name) and name.lower() not in _WORDS
    return name if is_plain else orjson.dumps(name).decode()
