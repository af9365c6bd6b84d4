"""Prints a message with its payload."""

import base64
from collections.abc import Mapping

from heliograph.cli.ctl.printing import print_json, text_of
from heliograph.cli.ctl.times import time_of

_SHOWN = 4096


def print_message(facts: Mapping[str, object], payload: bytes, size: int, as_json: bool) -> None:
    """Print a message: a line for each fact, then its payload.

    Args:
        facts: By name; what ends in `_at` is microseconds since the epoch.
        payload: Its beginning.
        size: How many bytes it has in all.
    """
    text = _text(payload)
    if as_json:
        kind, shown = ("base64", base64.b64encode(payload).decode()) if text is None else ("plain", text)
        print_json({**facts, "payload": shown, "payload_encoding": kind, "payload_is_whole": len(payload) == size})
        return
    width = max(map(len, facts))
    for name, value in facts.items():
        if isinstance(value, dict):
            value = ", ".join(f"{key} {one}" for key, one in value.items())
        elif isinstance(value, int) and name.endswith("_at"):
            value = time_of(value)
        print(f"{name.replace('_', ' '):<{width}}  {text_of(value)}")
    shown = payload[:_SHOWN].hex(" ") if text is None else text[:_SHOWN]
    print(f"{'payload':<{width}}  {text_of(shown)}")
    if size > min(len(payload), _SHOWN):
        print(f"{'':<{width}}  (its beginning; {'the whole is larger' if len(payload) < size else '--json has all'})")


def _text(payload: bytes) -> str | None:
    """A payload as text; None where it is not text."""
    try:
        return payload.decode("utf-8")
    except UnicodeDecodeError:
        return None
