"""Checks of arguments that several methods take: topic names, topic filters and addresses."""

from ipaddress import ip_address
from typing import Final

from heliograph.mqtt.topic import (
    MAX_TOPIC_BYTES,
    has_wildcard,
    subscription_fault,
    topic_filter_fault,
    topic_name_fault,
)
from heliograph.rpc.codes import BAD_ARGUMENTS
from heliograph.rpc.methods import RpcError

_LEVELS_MAX: Final = MAX_TOPIC_BYTES + 1  # as many as there can be; a listener may allow fewer
_SHOWN_LENGTH_MAX: Final = 200


def check_filter(text: str) -> None:
    """Raise what is answered where a text is no topic filter; one without `$share/` and its like is meant."""
    _refuse(text, "topic filter", topic_filter_fault(text, _LEVELS_MAX))


def check_subscription(text: str) -> None:
    """Raise what is answered where a text is no filter as a client writes it, `$share/...` too."""
    _refuse(text, "topic filter", subscription_fault(text, _LEVELS_MAX))


def check_topic_name(text: str) -> None:
    """Raise what is answered where a text is no topic name."""
    _refuse(text, "topic name", topic_name_fault(text, _LEVELS_MAX))


def check_topic(text: str) -> None:
    """Raise what is answered where a text is neither a topic name nor a filter."""
    if has_wildcard(text):
        check_subscription(text)
    else:
        check_topic_name(text)


def plain_address(text: str) -> str:
    """An IP address as rows show it.

    Raises:
        RpcError: It is not one.
    """
    try:
        return str(ip_address(text))
    except ValueError:
        raise RpcError(
            BAD_ARGUMENTS, f"{text!r} is no IP address; valid is one such as 192.0.2.7 or 2001:db8::7"
        ) from None


def _refuse(text: str, kind: str, fault: str | None) -> None:
    if fault is None:
        size = len(text.encode())
        if size <= MAX_TOPIC_BYTES:
            return
        fault = f"it has {size:,} bytes; at most {MAX_TOPIC_BYTES:,} are valid"
    shown = text if len(text) <= _SHOWN_LENGTH_MAX else f"{text[:_SHOWN_LENGTH_MAX]}..."
    raise RpcError(BAD_ARGUMENTS, f"{shown!r} is no {kind}: {fault}")
