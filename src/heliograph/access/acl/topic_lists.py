"""Rules as directories and hashes have them: lists of topics that are allowed, and rules in JSON."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import orjson

_ACTIONS: Final = ("publish", "subscribe", "all")
_KEYS: Final = ("action", "qos", "retain")


def allowed(action: str, topics: Iterable[bytes]) -> Iterator[dict[str, object]]:
    for topic in topics:
        yield {"permission": "allow", "action": action, "topic": topic}


def rules_in_json(texts: Iterable[bytes]) -> Iterator[object]:
    """The rule objects of texts, each an object or a list of them; a text that is no JSON is given as it is."""
    for text in texts:
        try:
            found = orjson.loads(text)
        except orjson.JSONDecodeError:
            found = text
        yield from found if isinstance(found, list) else [found]


def rules_of_hash(fields: Mapping[str, bytes]) -> Iterator[object]:
    """The rule objects of a hash, whose fields are topics.

    Args:
        fields: By topic what is allowed: `publish`, `subscribe`, `all`, or an object in JSON with `action`, `qos` and
            `retain`. Nothing else of it counts: a hash never denies.
    """
    for topic, value in fields.items():
        text = value.decode("utf-8", "replace")
        given: object = {"action": text} if text in _ACTIONS else _in_json(value)
        if isinstance(given, Mapping):
            yield {**{key: given[key] for key in _KEYS if key in given}, "permission": "allow", "topic": topic}
        else:
            yield given


def _in_json(text: bytes) -> object:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
