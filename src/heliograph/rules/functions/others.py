"""Functions that ask something else than their arguments: the environment, chance, and a store of the node's own."""

import os
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from heliograph.mqtt.topic import topic_matches
from heliograph.rules.errors import EvaluationFault
from heliograph.rules.functions.definition import Family
from heliograph.rules.functions.strings import utf8
from heliograph.rules.values import UNDEFINED, Value, describe

FAMILY: Final = Family("Others")

VARIABLE_PREFIX: Final = "HELIOGRAPHVAR_"
_KEYS_MAX: Final = 100_000

_environment: dict[str, str] = {}
_given: ContextVar[Mapping[str, str] | None] = ContextVar("environment of getenv", default=None)
_store: dict[Value, Value] = {}
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
        return given.get(VARIABLE_PREFIX + text, "")
    if text not in _environment:
        if len(_environment) >= _KEYS_MAX:
            _environment.clear()
        _environment[text] = os.environ.get(VARIABLE_PREFIX + text, "") if "\0" not in text else ""
    return _environment[text]


def _key(key: Value) -> Value:
    if isinstance(key, list | dict):
        raise EvaluationFault(f"a key must be a string, a number or a boolean, not {describe(key)}")
    return key


def _put(table: dict[Value, Value], key: Value, value: Value) -> Value:
    if _key(key) not in table and len(table) >= _KEYS_MAX:
        raise EvaluationFault(f"there are {_KEYS_MAX:,} keys already; delete some")
    table[key] = value
    return value


@FAMILY.function("V key, V value", "V")
def kv_store_put(key: Value, value: Value) -> Value:
    """Keep a value under a key, for all rules of this process; gives the value."""
    return _put(_store, key, value)


@FAMILY.function("V key[, V default]", "V")
def kv_store_get(key: Value, default: Value = UNDEFINED) -> Value:
    """What kv_store_put has kept under a key, or else the default."""
    return _store.get(_key(key), default)


@FAMILY.function("V key", "V")
def kv_store_del(key: Value) -> Value:
    """Forget what kv_store_put has kept under a key."""
    _store.pop(_key(key), None)
    return UNDEFINED


def _own() -> dict[Value, Value]:
    table: dict[Value, Value] | None = getattr(_scratch, "table", None)
    if table is None:
        table = _scratch.table = {}
    return table


@FAMILY.function("V key, V value", "V")
def proc_dict_put(key: Value, value: Value) -> Value:
    """Keep a value under a key, for the rules that this worker evaluates; gives the value."""
    return _put(_own(), key, value)


@FAMILY.function("V key", "V")
def proc_dict_get(key: Value) -> Value:
    """What proc_dict_put has kept under a key, or undefined."""
    return _own().get(_key(key), UNDEFINED)


@FAMILY.function("V key", "V")
def proc_dict_del(key: Value) -> Value:
    """Forget what proc_dict_put has kept under a key."""
    _own().pop(_key(key), None)
    return UNDEFINED


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
