"""Functions that ask something else than their arguments: variables, chance, and values that rules have kept."""

import uuid
from typing import Final

from heliograph.mqtt.topic import topic_matches
from heliograph.rules.environment import Environment
from heliograph.rules.functions.definition import Family
from heliograph.rules.functions.strings import utf8
from heliograph.rules.values import UNDEFINED, Value

FAMILY: Final = Family("Others")


@FAMILY.function("", "S")
def uuid_v4() -> Value:
    """A random UUID: 36 lower-case characters."""
    return str(uuid.uuid4())


@FAMILY.function("", "S")
def uuid_v4_no_hyphen() -> Value:
    """A random UUID without hyphens: 32 lower-case characters."""
    return uuid.uuid4().hex


@FAMILY.function("S name", "S", asks_environment=True)
def getenv(environment: Environment, name: str | bytes) -> Value:
    """The environment variable HELIOGRAPHVAR_ and the name, '' if it is not set; read once and kept."""
    return environment.variable(utf8(name))


@FAMILY.function("V key, V value", "V", asks_environment=True)
def kv_store_put(environment: Environment, key: Value, value: Value) -> Value:
    """Keep a value under a key, for all rules of this node; gives the value."""
    return environment.kept.put(key, value)


@FAMILY.function("V key[, V default]", "V", asks_environment=True)
def kv_store_get(environment: Environment, key: Value, default: Value = UNDEFINED) -> Value:
    """What kv_store_put has kept under a key, or else the default."""
    return environment.kept.get(key, default)


@FAMILY.function("V key", "V", asks_environment=True)
def kv_store_del(environment: Environment, key: Value) -> Value:
    """Forget what kv_store_put has kept under a key."""
    return environment.kept.remove(key)


@FAMILY.function("V key, V value", "V", asks_environment=True)
def proc_dict_put(environment: Environment, key: Value, value: Value) -> Value:
    """Keep a value under a key, for the rules that this worker evaluates; gives the value."""
    return environment.kept_by_thread.put(key, value)


@FAMILY.function("V key", "V", asks_environment=True)
def proc_dict_get(environment: Environment, key: Value) -> Value:
    """What proc_dict_put has kept under a key, or undefined."""
    return environment.kept_by_thread.get(key, UNDEFINED)


@FAMILY.function("V key", "V", asks_environment=True)
def proc_dict_del(environment: Environment, key: Value) -> Value:
    """Forget what proc_dict_put has kept under a key."""
    return environment.kept_by_thread.remove(key)


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
