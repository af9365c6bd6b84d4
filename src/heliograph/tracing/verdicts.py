"""How a trace shows the callbacks of hook points: which one it was, and what it said."""

from collections.abc import Callable
from typing import Final

from heliograph.broker.actions import Decision
from heliograph.broker.authentication import AuthStep
from heliograph.broker.hook_order import PLUGINS, PRIORITIES
from heliograph.broker.hooks import DeferredAck, Refusal
from heliograph.broker.message import Message
from heliograph.broker.node_rights import no_match
from heliograph.broker.pending import Pending
from heliograph.mqtt import reason_codes as rc
from heliograph.tracing.packet_fields import short

Fields = dict[str, object]

POLICY_FAILED: Final = (
    1  # the number of a verdict in a way whose text names the validation or transformation that failed
)

_OWNERS: Final = {priority: owner.replace("`", "") for owner, priority in PRIORITIES.items()}
_TEXT_MAX: Final = 300


def name_of(callback: Callable[..., object], priority: int | None) -> str:
    """What people know a callback by: a feature of the broker, or the function of a plugin."""
    if callback is no_match:
        return "authorization.no_match"
    if priority is not None and priority != PLUGINS and priority in _OWNERS:
        return _OWNERS[priority]
    module = getattr(callback, "__module__", None)
    name = getattr(callback, "__qualname__", type(callback).__name__)
    return f"{module}.{name}" if module else str(name)


def verdict_fields(verdict: object, accumulator: object, *, shows_errors: bool) -> Fields:
    """What a callback said.

    Args:
        accumulator: What it was given last.
        shows_errors: Whether the text of what it raised may be shown; what authenticates clients may have put a
            password into it.
    """
    if isinstance(verdict, Exception):
        text = f": {verdict}"[:_TEXT_MAX] if shows_errors else ""
        return {"verdict": "raised", "error": type(verdict).__name__ + text}
    if isinstance(verdict, Pending):
        return {"verdict": "waits"}
    value: object = None
    if isinstance(verdict, tuple) and len(verdict) == 2:
        verdict, value = verdict
    fields: Fields = {"verdict": verdict if isinstance(verdict, str) else "ok"}
    return fields | _value(value, accumulator, is_stopped=verdict == "stop")


def _value(value: object, accumulator: object, *, is_stopped: bool) -> Fields:
    if isinstance(value, DeferredAck):
        return {"says": "taken, and acknowledged later"}
    if isinstance(value, Refusal):
        return {"says": "refused", "reason": value.reason, "code": rc.name_of(value.code)}
    if isinstance(value, Message) and isinstance(accumulator, Message):
        if value is accumulator:
            return {}
        return (
            {"says": "changed", "topic": short(value.topic)}
            if value.topic != accumulator.topic
            else {"says": "changed"}
        )
    if isinstance(accumulator, Message):
        return {"says": "taken"} if is_stopped else {}
    if isinstance(value, Decision):
        return {"says": value.result, "source": value.source}
    if isinstance(value, AuthStep):
        return {"says": rc.name_of(value.code)}
    if isinstance(value, int):
        return {"says": rc.name_of(value)}
    return {"says": value} if isinstance(value, str) else {}


def in_words(verdict: object, accumulator: object) -> str:
    """What a callback of `message.publish` said about a message, for people; empty where it only took notice."""
    if verdict is None:
        return ""
    fields = verdict_fields(verdict, accumulator, shows_errors=True)
    if fields["verdict"] == "raised":
        return f"failed: {fields['error']}"
    if fields["verdict"] == "waits":
        return "answers later"
    says = str(fields.get("says", ""))
    if "reason" in fields:
        return f"{says}: {fields['reason']}" if fields["reason"] else f"took it ({fields['code']})"
    if "topic" in fields:
        return f"{says}, to the topic {fields['topic']}"
    return says
