"""Rules as directories and hashes have them: lists of topics that are allowed, and rules in JSON."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import orjson

from heliograph.config.authentication import LdapAuthenticatorConfig
from heliograph.config.authorization import LdapSourceConfig

_ACTIONS: Final = ("publish", "subscribe", "all")
_KEYS: Final = ("action", "qos", "retain")


class EntryRules:
    """The rule objects of entries of a directory: topics in an attribute for each action, then rules in another one."""

    def __init__(self, settings: LdapAuthenticatorConfig | LdapSourceConfig) -> None:
        named = {
            "all": settings.all_attribute,
            "publish": settings.publish_attribute,
            "subscribe": settings.subscribe_attribute,
        }
        self._topics = {action: name for action, name in named.items() if name is not None}
        self._rules = [] if settings.acl_rule_attribute is None else [settings.acl_rule_attribute]
        self.attributes = [*self._topics.values(), *self._rules]

    def of(self, values: Callable[[str], list[bytes]]) -> list[object]:
        """The rule objects of an entry whose attributes have these values."""
        topics = [
            {"permission": "allow", "action": action, "topic": topic}
            for action, name in self._topics.items()
            for topic in values(name)
        ]
        return [*topics, *(rule for name in self._rules for rule in _rules_in_json(values(name)))]


def _rules_in_json(texts: Iterable[bytes]) -> Iterator[object]:
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
