"""The operations of a transformation: each evaluates an expression over a draft and puts the result into it."""

from collections.abc import Callable
from typing import Final

from heliograph.config.message_policies import Operation
from heliograph.message_policies.draft import Draft
from heliograph.message_policies.errors import MessagePolicyError, TransformationFault
from heliograph.mqtt.topic import MAX_TOPIC_BYTES, topic_name_fault
from heliograph.rules.environment import Environment
from heliograph.rules.errors import EvaluationFault
from heliograph.rules.values import UNDEFINED, Value, describe
from heliograph.rules.variform import Variform, VariformError, VariformEvaluationError, text_of_result

Operate = Callable[[Draft], None]
"""Changes a draft; raises `TransformationFault` where it cannot."""

_Put = Callable[[Draft, Value], None]
_TEXT_BYTES_MAX: Final = 65_535


def compile_operation(
    settings: Operation, path: tuple[str, ...], levels_max: Callable[[], int], environment: Environment
) -> Operate:
    try:
        expression = Variform(settings.value, environment)
        expression.check_calls()
    except VariformError as error:
        raise MessagePolicyError((*path, "value"), str(error)) from None
    key, evaluate, put = settings.key, expression.evaluate, _target(settings.key, levels_max)

    def operate(draft: Draft) -> None:
        try:
            put(draft, evaluate(draft))
        except VariformEvaluationError as error:
            raise TransformationFault(f"{key}: {error.problem}") from None
        except (EvaluationFault, TransformationFault) as fault:
            raise TransformationFault(f"{key}: {fault}") from None

    return operate


def _target(key: str, levels_max: Callable[[], int]) -> _Put:
    root, _, rest = key.partition(".")
    if root == "topic":
        return lambda draft, value: _put_topic(draft, value, levels_max)
    if root == "qos":
        return _put_qos
    if root == "retain":
        return _put_retain
    if root == "user_property":
        return lambda draft, value: draft.set_user_property(rest, _text(value))
    if not rest:
        return _put_payload
    steps = rest.split(".")
    return lambda draft, value: _put_into_payload(draft, steps, value)


def _put_topic(draft: Draft, value: Value, levels_max: Callable[[], int]) -> None:
    topic = _text(value)
    fault = topic_name_fault(topic, levels_max())
    if fault is None and len(topic.encode()) > MAX_TOPIC_BYTES:
        fault = f"the topic name has more than {MAX_TOPIC_BYTES} bytes"
    if fault is not None:
        raise TransformationFault(fault)
    draft.topic = topic


def _put_qos(draft: Draft, value: Value) -> None:
    qos = {"0": 0, "1": 1, "2": 2}.get(value) if isinstance(value, str) else value
    if type(qos) is not int or not 0 <= qos <= 2:
        raise TransformationFault(f"found {describe(value)}, expected 0, 1 or 2")
    draft.qos = qos


def _put_retain(draft: Draft, value: Value) -> None:
    retain = {"true": True, "false": False}.get(value) if isinstance(value, str) else value
    if not isinstance(retain, bool):
        raise TransformationFault(f"found {describe(value)}, expected true or false")
    draft.retain = retain


def _put_payload(draft: Draft, value: Value) -> None:
    draft.set_payload("" if value is UNDEFINED else value)


def _put_into_payload(draft: Draft, steps: list[str], value: Value) -> None:
    draft.set_payload(_placed(draft.payload, steps, 0, "" if value is UNDEFINED else value))


def _placed(target: Value, steps: list[str], at: int, value: Value) -> Value:
    if at == len(steps):
        return value
    if at > 0 and (target is UNDEFINED or target is None):
        target = {}
    if not isinstance(target, dict):
        place = ".".join(("payload", *steps[:at]))
        hint = "" if at else "; a payload_decoder is needed that makes a map of it"
        raise TransformationFault(f"{place} is {_shown(target)}, not a map{hint}")
    return {**target, steps[at]: _placed(target.get(steps[at], UNDEFINED), steps, at + 1, value)}


def _text(value: Value) -> str:
    text = text_of_result(value)
    if isinstance(text, bytes):
        raise TransformationFault("the result is not valid UTF-8")
    if "\0" in text:
        raise TransformationFault("the result holds U+0000, which MQTT does not allow in texts")
    if len(text) > _TEXT_BYTES_MAX // 4 and len(text.encode()) > _TEXT_BYTES_MAX:
        raise TransformationFault(f"the result has more than {_TEXT_BYTES_MAX} bytes")
    return text


def _shown(value: Value) -> str:
    """The payload's kind and length only: a log is no place for its content."""
    return f"a text of {len(value)} characters" if isinstance(value, str | bytes) else describe(value)
