"""Functions that ask something else than their arguments: the message, variables, chance, kept values, jq programs.

A function of a column reads it whatever aliases the rule has given. jq runs in worker processes under a timeout
(`heliograph.rules.jq_process`).
"""

import uuid
from typing import Final

from heliograph.mqtt.topic import topic_matches
from heliograph.rules.columns import Columns
from heliograph.rules.environment import Environment
from heliograph.rules.errors import EvaluationFault
from heliograph.rules.functions.definition import Family
from heliograph.rules.functions.strings import utf8
from heliograph.rules.json_text import decode_json, encode_json
from heliograph.rules.paths import read_key
from heliograph.rules.values import UNDEFINED, Value, describe

OTHERS: Final = Family("Others")


@OTHERS.function("", "S")
def uuid_v4() -> Value:
    """A random UUID: 36 lower-case characters."""
    return str(uuid.uuid4())


@OTHERS.function("", "S")
def uuid_v4_no_hyphen() -> Value:
    """A random UUID without hyphens: 32 lower-case characters."""
    return uuid.uuid4().hex


@OTHERS.function("S name", "S", asks_environment=True)
def getenv(environment: Environment, name: str | bytes) -> Value:
    """The environment variable HELIOGRAPHVAR_ and the name, '' if it is not set; read once and kept."""
    return environment.variable(utf8(name))


@OTHERS.function("V key, V value", "V", asks_environment=True)
def kv_store_put(environment: Environment, key: Value, value: Value) -> Value:
    """Keep a value under a key, for all rules of this node; gives the value."""
    return environment.kept.put(key, value)


@OTHERS.function("V key[, V default]", "V", asks_environment=True)
def kv_store_get(environment: Environment, key: Value, default: Value = UNDEFINED) -> Value:
    """What kv_store_put has kept under a key, or else the default."""
    return environment.kept.get(key, default)


@OTHERS.function("V key", "V", asks_environment=True)
def kv_store_del(environment: Environment, key: Value) -> Value:
    """Forget what kv_store_put has kept under a key."""
    return environment.kept.remove(key)


@OTHERS.function("V key, V value", "V", asks_environment=True)
def proc_dict_put(environment: Environment, key: Value, value: Value) -> Value:
    """Keep a value under a key, for the rules that this worker evaluates; gives the value."""
    return environment.kept_by_thread.put(key, value)


@OTHERS.function("V key", "V", asks_environment=True)
def proc_dict_get(environment: Environment, key: Value) -> Value:
    """What proc_dict_put has kept under a key, or undefined."""
    return environment.kept_by_thread.get(key, UNDEFINED)


@OTHERS.function("V key", "V", asks_environment=True)
def proc_dict_del(environment: Environment, key: Value) -> Value:
    """Forget what proc_dict_put has kept under a key."""
    return environment.kept_by_thread.remove(key)


@OTHERS.function("A filters, S topic[, I qos]", "B")
def contains_topic(filters: list[Value], topic: str | bytes, qos: int | None = None) -> Value:
    """Whether a list of maps with `topic` and `qos` has this topic, and this QoS if one is given."""
    return any(one.get("topic") == topic and qos in (None, one.get("qos")) for one in filters if isinstance(one, dict))


@OTHERS.function("A filters, S topic[, I qos]", "B")
def contains_topic_match(filters: list[Value], topic: str | bytes, qos: int | None = None) -> Value:
    """As contains_topic, but the topics in the list are filters that may match."""
    name = utf8(topic)
    for one in filters:
        if isinstance(one, dict) and qos in (None, one.get("qos")):
            pattern = one.get("topic")
            if isinstance(pattern, str) and topic_matches(name, pattern):
                return True
    return False


MESSAGE: Final = Family("Columns")


def _column(result: str, column: str, name: str | None = None) -> None:
    def implementation(columns: Columns) -> Value:
        return columns.get(column)

    implementation.__doc__ = f"The column {column}."
    MESSAGE.function("", result, name or column, column=column)(implementation)


_column("S", "id", "msgid")
_column("I", "qos")


@MESSAGE.function("[I level]", "S", column="topic")
def topic(columns: Columns, level: int | None = None) -> Value:
    """The column topic, or one of its levels, counted from 1; fails outside of them."""
    name = columns.get("topic")
    if level is None or name is UNDEFINED:
        return name
    levels = name.split("/") if isinstance(name, str) else []
    if not 0 < level <= len(levels):
        raise EvaluationFault(f"{describe(name)} has no level {level}; it has {len(levels)}")
    return levels[level - 1]


_column("M", "flags")


@MESSAGE.function("S name", "V", column="flags")
def flag(columns: Columns, name: str | bytes) -> Value:
    """One of the flags, 'retain' or 'dup'; undefined for any other name."""
    return read_key(columns.get("flags"), utf8(name))


_column("S", "clientid")
_column("S", "username")
_column("S", "peerhost", "clientip")
_column("S", "peerhost")


@MESSAGE.function("[S path]", "V", column="payload")
def payload(columns: Columns, path: str | bytes | None = None) -> Value:
    """The column payload, or what lies in it at a path of names joined by dots; fails where it is no JSON then."""
    if path is None:
        return columns.get("payload")
    value = columns.document()
    # As with payload.<path>: a payload that is the JSON text of a string is not looked into.
    if not isinstance(value, dict):
        return UNDEFINED
    for name in utf8(path).split("."):
        value = read_key(value, name)
    return value


JQ: Final = Family("jq")

_TIMEOUT_MS_MAX: Final = 3_600_000


@JQ.function("S program, V input[, I timeout_ms]", "A", may_block=True, asks_environment=True)
def jq(environment: Environment, program: str | bytes, document: Value, timeout_ms: int | None = None) -> Value:
    """All outputs of a jq program on a JSON text or any other value; fails if it fails or takes too long."""
    if timeout_ms is not None and not 0 < timeout_ms <= _TIMEOUT_MS_MAX:
        raise EvaluationFault(f"the timeout must be from 1 to {_TIMEOUT_MS_MAX:,} ms, not {timeout_ms}")
    timeout_s = None if timeout_ms is None else timeout_ms / 1000
    return decode_json(environment.jq.evaluate(utf8(program).encode(), _json_text(document), timeout_s))


def _json_text(document: Value) -> bytes:
    if not isinstance(document, str | bytes):
        return encode_json(document).encode()
    # jq itself would also take several documents in a row, and NaN.
    decode_json(document)
    return document.encode() if isinstance(document, str) else document
