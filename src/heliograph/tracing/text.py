"""The records of a trace as lines for people. Needs nothing of the broker, so that a command loads it quickly."""

from collections.abc import Mapping
from typing import Final

Record = Mapping[str, object]

_EVENT_WIDTH: Final = 19
# What the line says by itself, or what is of no use to people.
_SAID: Final = frozenset({"at", "event", "message", "client", "packet", "why"})
_FIRST: Final = (
    "packet",
    "hook",
    "callback",
    "verdict",
    "says",
    "to",
    "by",
    "outcome",
    "step",
    "reason",
    "topic",
    "filter",
)


def text_of(record: Record) -> str:
    """A record as a line: time, event, client, and what else it has; a message by the last digits of its id."""
    time = str(record.get("at", "")).partition("T")[2].rstrip("Z")
    event = str(record.get("event", "")).replace("_", " ")
    words = [f"{time:15} {event:{_EVENT_WIDTH}}"]
    if record.get("client"):
        words.append(_shown(record["client"]))
    if record.get("message"):
        words.append(f"#{str(record['message'])[-8:]}")
    named = [name for name in _FIRST if name in record] + [name for name in record if name not in _FIRST]
    words += [_field(name, record[name]) for name in named if name == "packet" or name not in _SAID]
    if record.get("why"):
        words.append(f"({record['why']})")
    return " ".join(words).rstrip()


def _field(name: str, value: object) -> str:
    if name in ("packet", "outcome"):
        return str(value)
    if name == "filters" and isinstance(value, list):
        return f"filters=[{', '.join(_filter(one) for one in value)}]"
    if value is True:
        return name
    return f"{name}={_shown(value)}"


def _filter(value: object) -> str:
    """A filter that matched with its receivers, or one that a client asked for."""
    if not isinstance(value, dict):
        return str(value)
    text = str(value.get("filter", ""))
    receivers = value.get("receivers")
    if isinstance(receivers, list):
        more = f" and {value['more']} more" if "more" in value else ""
        return f"{text} -> {', '.join(str(one) for one in receivers)}{more}"
    options = " ".join(_field(name, one) for name, one in value.items() if name != "filter")
    return f"{text} {options}".rstrip()


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {_shown(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_shown(one) for one in value) + "]"
    text = str(value)
    return repr(text) if not text or any(letter.isspace() or not letter.isprintable() for letter in text) else text
