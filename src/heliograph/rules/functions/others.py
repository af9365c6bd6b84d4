"""Functions that ask something else than their arguments: the environment, chance, and a store of the node's own."""

import os
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import chain
from typing import Final

from heliograph.mqtt.topic import topic_matches
from heliograph.rules.errors import EvaluationFault
from heliograph.rules.functions.definition import Family
from heliograph.rules.functions.strings import utf8
from heliograph.rules.values import UNDEFINED, Bits, Value, bytes_of, describe, string_of

FAMILY: Final = Family("Others")

VARIABLE_PREFIX: Final = "HELIOGRAPHVAR_"
_KEYS_MAX: Final = 100_000
_VALUE_BYTES_MAX: Final = 65_536
_STORE_BYTES_MAX: Final = 64 << 20
_NAME_LENGTH_MAX: Final = 1024
_ITEM_BYTES: Final = 16

_environment: dict[str, str] = {}
_given: ContextVar[Mapping[str, str] | None] = ContextVar("environment of getenv", default=None)
_scratch = threading.local()


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Have `getenv` see these variables, with their prefix, in place of the process's."""
    before = _given.set(variables)
    try:
        yield
    finally:
        _given.reset(before)


@FAMILY.function("", "S")
def uuid_v4() -> Value:
    """A random UUID: 36 lower-case characters."""
    return str(uuid.uuid4())


@FAMILY.function("", "S")
def uuid_v4_no_hyphen() -> Value:
    """A random UUID without hyphens: 32 lower-case characters."""
    return uuid.uuid4().hex


@FAMILY.function("S name", "S")
def getenv(name: str | bytes) -> Value:
    """The environment variable HELIOGRAPHVAR_ and the name, '' if it is not set; read once and kept."""
    text = utf8(name)
    given = _given.get()
    if given is not None:
        return _content(given.get(VARIABLE_PREFIX + text, ""))
    if len(text) > _NAME_LENGTH_MAX:
        return ""
    if text not in _environment:
        if len(_environment) >= _KEYS_MAX:
            _environment.clear()
        _environment[text] = os.environ.get(VARIABLE_PREFIX + text, "") if "\0" not in text else ""
    return _content(_environment[text])


def _content(text: str) -> str | bytes:
    """The content of a variable, whose bytes that are not UTF-8 Python writes as surrogates."""
    return text if text.isascii() else string_of(os.fsencode(text))


def _key(key: Value) -> Value:
    if isinstance(key, list | dict):
        raise EvaluationFault(f"a key must be a string, a number or a boolean, not {describe(key)}")
    return key


class _Store:
    """Values under keys, bounded in number and in bytes: rules fill it with what messages bring."""

    def __init__(self) -> None:
        self._values: dict[Value, tuple[Value, int]] = {}
        self._bytes = 0

    def put(self, key: Value, value: Value) -> Value:
        size = _size(_key(key), _size(value, 0))
        if size > _VALUE_BYTES_MAX:
            raise EvaluationFault(f"a key and its value have at most {_VALUE_BYTES_MAX:,} bytes")
        known = self._values.get(key)
        if known is None and len(self._values) >= _KEYS_MAX:
            raise EvaluationFault(f"there are {_KEYS_MAX:,} keys already; delete some")
        size_before = 0 if known is None else known[1]
        if self._bytes + size - size_before > _STORE_BYTES_MAX:
            raise EvaluationFault(f"the values have {_STORE_BYTES_MAX >> 20} MiB already; delete some")
        self._values[key] = value, size
        self._bytes += size - size_before
        return value

    def get(self, key: Value, default: Value) -> Value:
        known = self._values.get(_key(key))
        return default if known is None else known[0]

    def remove(self, key: Value) -> Value:
        known = self._values.pop(_key(key), None)
        if known is not None:
            self._bytes -= known[1]
        return UNDEFINED


_store: Final = _Store()


def _size(value: Value, already: int) -> int:
    """The bytes of a value, about, and those before it; of one that is too large, only that it is."""
    size = already + _ITEM_BYTES
    if isinstance(value, str | bytes):
        size += len(bytes_of(value)) if len(value) <= _VALUE_BYTES_MAX else len(value)
    elif type(value) is int:
        size += value.bit_length() // 8
    elif isinstance(value, Bits):
        size += value.length // 8
    elif isinstance(value, list | dict):
        for item in value if isinstance(value, list) else chain(value.keys(), value.values()):
            if size > _VALUE_BYTES_MAX:
                break
            size = _size(item, size)
    return size


@FAMILY.function("V key, V value", "V")
def kv_store_put(key: Value, value: Value) -> Value:
    """Keep a value under a key, for all rules of this process; gives the value."""
    return _store.put(key, value)


@FAMILY.function("V key[, V default]", "V")
def kv_store_get(key: Value, default: Value = UNDEFINED) -> Value:
    """What kv_store_put has kept under a key, or else the default."""
    return _store.get(key, default)


@FAMILY.function("V key", "V")
def kv_store_del(key: Value) -> Value:
    """Forget what kv_store_put has kept under a key."""
    return _store.remove(key)


def _own() -> _Store:
    store: _Store | None = getattr(_scratch, "store", None)
    if store is None:
        store = _scratch.store = _Store()
    return store


@FAMILY.function("V key, V value", "V")
def proc_dict_put(key: Value, value: Value) -> Value:
    """Keep a value under a key, for the rules that this worker evaluates; gives the value."""
    return _own().put(key, value)


@FAMILY.function("V key", "V")
def proc_dict_get(key: Value) -> Value:
    """What proc_dict_put has kept under a key, or undefined."""
    return _own().get(key, UNDEFINED)


@FAMILY.function("V key", "V")
def proc_dict_del(key: Value) -> Value:
    """Forget what proc_dict_put has kept under a key."""
    return _own().remove(key)


@FAMILY.function("A filters, S topic[, I qos]", "B")
def contains_topic(filters: list[Value], topic: str | bytes, qos: int | None = None) -> Value:
    """Whether a list of maps with `topic` and `qos` has this topic, and this QoS if one is given."""
    return any(one.get("topic") == topic and qos in (None, one.get("qos")) for one in filters if isinstance(one, dict))


@FAMILY.function("A filters, S topic[, I qos]", "B")
def contains_topic_match(filters: list[Value], topic: str | bytes, qos: int | None = None) -> Value:
    """As contains_topic, but the topics in the list are filters that may match."""
    name = utf8(topic)
    for one in filters:
        if isinstance(one, dict) and qos in (None, one.get("qos")):
            pattern = one.get("topic")
            if isinstance(pattern, str) and topic_matches(name, pattern):
                return True
    return False
