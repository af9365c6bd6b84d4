"""What the events of live streams have, by their names."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, Literal, NotRequired, TypeAlias

from pydantic import Field
from typing_extensions import TypedDict

from heliograph.management.asking.broker_numbers import COUNTS, RATES
from heliograph.management.live.broker import READER, STORAGE, STORAGE_RATES
from heliograph.management.live.subjects import CONFIGURATION, LOG_ENTRY, OPEN_ALARM, PIPELINE, RULE_COUNTS
from heliograph.management.web.rows import list_of, typed_dict

_RATE: TypeAlias = float | None
_AT: Final = Annotated[int, Field(description="Milliseconds since the epoch")]


def _rates(names: Iterable[str]) -> dict[str, Any]:
    return dict.fromkeys(names, _RATE)


def _counted(names: Iterable[str]) -> dict[str, Any]:
    """Counts, and how much each grows in a second."""
    return {key: kind for name in names for key, kind in ((name, int), (f"{name}_rate", _RATE))}


def _left_out(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Keys of what does not answer, too."""
    return {name: NotRequired[kind] for name, kind in keys.items()}


def _by_id(name: str, key: str, words: str, kind: Any) -> Any:
    """An event that has some of all that there are."""
    return typed_dict(name, words, {"count": int, key: dict[str, kind]})


_DROPS: Final = "Messages in a second that a receiver, or all of them, did not get, by reason"
_NUMBERS: Final = {
    **dict.fromkeys(COUNTS, int),
    "rates": typed_dict(
        "BrokerRates", "What happens in a second; null at the first look.", _rates((*RATES, "dropped"))
    ),
    "drops": Annotated[dict[str, _RATE], Field(description=_DROPS)],
    "longest_turn_s": Annotated[float, Field(description="Of the event loop, in the last seconds")],
    "memory_bytes": int,
    "memory_limit_bytes": Annotated[int, Field(description="0 for none")],
}
_OF_NODE: Final = {
    "uptime_s": int,
    "connections": int,
    "sessions": int,
    "received": _RATE,
    "sent": _RATE,
    "cpu_percent": Annotated[_RATE, Field(description="100 is one core; null at the first look")],
    "longest_turn_s": float,
    "memory_bytes": int,
    "memory_limit_bytes": int,
    "memory_stage": Annotated[int, Field(description="Of the memory contract; 0 while memory is not short")],
}
_IN_SHORT: Final = typed_dict(
    "NodeInShort",
    "A node; one that does not answer has no numbers.",
    {"node": str, "answers": bool} | _left_out(_OF_NODE),
)
_DATABASE: Final = typed_dict(
    "LiveDatabase",
    "A database of a node.",
    {"database": str} | dict.fromkeys(STORAGE, float) | _rates(f"{name}_rate" for name in STORAGE_RATES),
)
_LISTENER: Final = typed_dict("LiveListener", "A listener of a node.", {"type": str, "name": str, "connections": int})
_WHOLE: Final = typed_dict(
    "WholeNode",
    "A node that answers, with its storage and listeners.",
    {
        "node": str,
        "answers": Literal[True],
        **_OF_NODE,
        **_NUMBERS,
        "storage": list_of(_DATABASE),
        "reader": typed_dict("LiveReader", "The storage reader of a node.", dict.fromkeys(READER, int)),
        "listeners": list_of(_LISTENER),
    },
)
_SILENT: Final = typed_dict("SilentNode", "A node that does not answer.", {"node": str, "answers": Literal[False]})
_RULE: Final = typed_dict(
    "LiveRule",
    "A rule: its counts, and how much each grows in a second.",
    {
        "enable": bool,
        "last_error": str,
        "last_error_at": Annotated[int, Field(description="Microseconds since the epoch; 0 for never")],
        **_counted(RULE_COUNTS),
    },
)
_POLICY: Final = typed_dict(
    "LivePolicy",
    "A validation or transformation: its counts, and how much each grows in a second.",
    {"enable": bool} | _left_out(_counted(("matched", "succeeded", "failed"))),
)


class LiveState(TypedDict):
    """Whether something works; actions, authenticators and sources have what they counted, too."""

    enable: bool
    status: str
    status_reason: NotRequired[str]
    metrics: NotRequired[dict[str, float]]


class LiveFailure(TypedDict):
    """A subject that cannot be looked at now."""

    of: str
    code: str
    message: str


class LiveEnd(TypedDict):
    """Why a stream ends."""

    code: str
    message: str


LIVE_EVENTS: Final = {
    "overview": typed_dict(
        "OverviewEvent",
        "The sums over nodes, and each node in short.",
        {"at": _AT, **_NUMBERS, "nodes": list_of(_IN_SHORT)},
    ),
    "node": typed_dict("NodeEvent", "All nodes.", {"at": _AT, "nodes": list_of(_WHOLE | _SILENT)}),
    "rules": _by_id("RulesEvent", "rules", "Rules by their ids.", _RULE),
    "alarms": typed_dict(
        "AlarmsEvent", "The alarms that go on, the newest first.", {"count": int, "alarms": OPEN_ALARM.rows()}
    ),
    "pipeline": PIPELINE.schema,
    "log": typed_dict(
        "LogEvent", "The entries that came since the last look.", {"last": int, "entries": LOG_ENTRY.rows()}
    ),
    "configuration": CONFIGURATION.schema,
    "connectors": _by_id("ConnectorsEvent", "connectors", "Connectors by their ids.", LiveState),
    "actions": _by_id("ActionsEvent", "actions", "Actions by their ids.", LiveState),
    "sources": _by_id("SourcesEvent", "sources", "Sources by their ids.", LiveState),
    "authentication": _by_id("AuthenticationEvent", "authentication", "Authenticators by their ids.", LiveState),
    "authorization": _by_id("AuthorizationEvent", "authorization", "Sources by their types.", LiveState),
    "schema_validations": _by_id("ValidationsEvent", "schema_validations", "Validations by their names.", _POLICY),
    "message_transformations": _by_id(
        "TransformationsEvent", "message_transformations", "Transformations by their names.", _POLICY
    ),
    "failed": LiveFailure,
    "end": LiveEnd,
}
"""Events by their names: those of subjects, `failed` and `end`."""
