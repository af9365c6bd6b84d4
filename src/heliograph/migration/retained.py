"""Retained messages of other brokers, as the HTTP API takes them: `POST /api/v5/publish/bulk`."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from heliograph.migration.draft import ImportDraft
from heliograph.migration.outcomes import DROPPED, KEPT, ForeignLine, ImportOutcome

_FILE_BYTES_MAX: Final = 6 * 1024 * 1024  # below what the HTTP API takes at once
_PUBLISH: Final = (
    "publish them when the node runs: curl -u KEY:SECRET -H 'content-type: application/json' --data @FILE "
    "http://127.0.0.1:18083/api/v5/publish/bulk"
)


@dataclass(frozen=True, slots=True)
class RetainedMessage:
    """A message.

    Attributes:
        expires_s: When it expires, in seconds since the epoch; 0 for never.
        properties: Its properties in the API's names.
    """

    topic: str
    payload: bytes
    qos: int
    expires_s: int = 0
    properties: dict[str, Any] = field(default_factory=dict)


def take_retained(draft: ImportDraft, messages: Iterable[RetainedMessage], place: ForeignLine, now_s: int) -> None:
    """Put those that have not expired beside the configuration, and say so."""
    listed = list(messages)
    live = [message for message in listed if message.expires_s == 0 or message.expires_s > now_s]
    names = _write(draft, live, now_s)
    if names:
        reason = _PUBLISH.replace("FILE", names[0] if len(names) == 1 else "each of them")
        draft.outcomes.append(ImportOutcome(place, KEPT, f"retained messages ({len(live)})", ", ".join(names), reason))
    if expired := len(listed) - len(live):
        draft.outcomes.append(
            ImportOutcome(place, DROPPED, f"retained messages ({expired})", reason="they have expired")
        )


def _write(draft: ImportDraft, messages: list[RetainedMessage], now_s: int) -> list[str]:
    parts: list[list[str]] = []
    size = _FILE_BYTES_MAX
    for message in messages:
        text = json.dumps(_as_json(message, now_s), ensure_ascii=False)
        size += len(text.encode()) + 2
        if size > _FILE_BYTES_MAX:
            parts.append([])
            size = len(text.encode()) + 2
        parts[-1].append(text)
    names = [f"retained{number}.json" if number > 1 else "retained.json" for number in range(1, len(parts) + 1)]
    for name, part in zip(names, parts, strict=True):
        draft.files[name] = "[{}\n]\n".format(",".join(f"\n{text}" for text in part))
    return names


def _as_json(message: RetainedMessage, now_s: int) -> dict[str, Any]:
    made: dict[str, Any] = {
        "topic": message.topic,
        "payload": base64.b64encode(message.payload).decode(),
        "payload_encoding": "base64",
        "qos": message.qos,
        "retain": True,
    }
    expiry = {"message_expiry_interval": message.expires_s - now_s} if message.expires_s else {}
    properties = message.properties | expiry
    return made | ({"properties": properties} if properties else {})


def api_properties(named: dict[str, Any]) -> dict[str, Any]:
    """Properties by their standard names, in the API's; those that the API does not take are left out."""
    names = ("Content-Type", "Response-Topic", "Payload-Format-Indicator", "Correlation-Data")
    made = {name.lower().replace("-", "_"): named[name] for name in names if name in named}
    if isinstance(made.get("correlation_data"), bytes):
        made["correlation_data"] = made["correlation_data"].decode(errors="replace")
    user = named.get("User-Property")
    return made | ({"user_properties": dict(user)} if user else {})
