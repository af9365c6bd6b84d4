"""The sink `elasticsearch`: documents created, updated or deleted by the bulk API, whose answer judges each row.

Without a template of the id, a document gets one made of the batch and the row's number in it, and is created: a batch
that runs again finds its documents there.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from heliograph.outbound.http_connection import HttpClientAnswer
from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.sinks.http_database import DatabaseRequest, HttpDatabaseSink, RequestOutcome, RowPortion
from heliograph.pipeline.sinks.http_delivery import judge
from heliograph.pipeline.sinks.retry import TransientError
from heliograph.pipeline.sinks.row_values import RowValues, TextTemplate, json_text
from heliograph.pipeline.sinks.sql_batches import RefusedRowsError
from heliograph.pipeline.sinks.template import placeholders
from heliograph.settings.addresses import ServerAddress
from heliograph.settings.fields import optional, required, setting
from heliograph.settings.kinds import Boolean, Choice, RefusedError, Text
from heliograph.settings.units import Address

CREATE: Final = "create"
UPDATE: Final = "update"
DELETE: Final = "delete"

_TEXT_MAX: Final = 300
_NDJSON: Final = "application/x-ndjson"
# Of each item, what is needed to judge it.
_WANTED: Final = "errors,items.*.status,items.*.error.type,items.*.error.reason,items.*.error.caused_by.reason"
_MISSING: Final = 404
_CONFLICT: Final = 409
# Of an index that is full or being moved, which passes.
_BLOCKED: Final = "cluster_block_exception"
_MISSING_INDEX: Final = "index_not_found_exception"
_MAY_NOT_LOOK: Final = 403


@dataclass(frozen=True, kw_only=True)
class ElasticsearchSink(HttpDatabaseSink):
    server: Address = required(ServerAddress(9200), "Where the server is.")
    action: str = setting(Choice(CREATE, UPDATE, DELETE), CREATE, "What is done with a document.")
    index: str = required(Text("a template of an index"), "Template of the index.")
    id: str | None = optional(Text("a template"), f"Template of the document's id; `{UPDATE}` and `{DELETE}` need it.")
    doc: str = setting(Text("a template"), "${.}", "Template of the document, which is a JSON object.")
    routing: str | None = optional(Text("a template"), "Template of the routing.")
    overwrite: bool = setting(
        Boolean(), True, f"Of `{CREATE}`: whether a document with the id is replaced; otherwise it is kept."
    )
    doc_as_upsert: bool = setting(Boolean(), False, f"Of `{UPDATE}`: whether a document that is not there is created.")
    require_alias: bool = setting(Boolean(), False, "Whether the index must be an alias.")

    def __post_init__(self) -> None:
        if self.id is None and self.action != CREATE:
            raise RefusedError(f"is missing: {self.action} needs it", "id")
        for name in ("index", "id", "doc", "routing"):
            try:
                TextTemplate(getattr(self, name) or "")
            except ValueError as error:
                raise RefusedError(str(error), name) from None

    @property
    def base_url(self) -> str:
        return f"{'http' if self.tls is None else 'https'}://{self.server}"

    @property
    def target(self) -> str:
        return f"Elasticsearch {self.index} at {self.server}"

    @property
    def templates(self) -> Sequence[str]:
        doc = [] if self.action == DELETE else [self.doc]
        return [self.index, *doc, *(text for text in (self.id, self.routing) if text is not None)]

    def request(self, part: RowPortion) -> DatabaseRequest:
        values, count = RowValues(part.rows), part.rows.num_rows
        indexes = TextTemplate(self.index).texts(values, count)
        ids = None if self.id is None else TextTemplate(self.id).texts(values, count)
        routings = None if self.routing is None else TextTemplate(self.routing).texts(values, count)
        docs = [] if self.action == DELETE else TextTemplate(self.doc).values(values, count)
        lines: list[str] = []
        for row in range(count):
            about: dict[str, Any] = {"_index": indexes[row]}
            about["_id"] = f"{part.batch}-{part.numbers[row]}" if ids is None else ids[row]
            if routings is not None:
                about["routing"] = routings[row]
            if self.require_alias and self.action != DELETE:
                about["require_alias"] = True
            lines.append(json_text({self._operation: about}))
            if self.action == CREATE:
                lines.append(json_text(_document(docs[row])))
            elif self.action == UPDATE:
                lines.append(json_text({"doc": _document(docs[row]), "doc_as_upsert": self.doc_as_upsert}))
        body = "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")
        return DatabaseRequest("/_bulk", {"filter_path": _WANTED}, body, {"Content-Type": _NDJSON})

    def outcome(self, answer: HttpClientAnswer, part: RowPortion) -> RequestOutcome:
        judge(answer, self.target)
        try:
            found = json.loads(answer.content)
            items = [next(iter(item.values())) for item in found["items"]]
            refused, again = {}, {}
            for place, item in enumerate(items):
                status, error = int(item["status"]), item.get("error") or {}
                text = f"answered {status}: {_sentence(error)}"
                if self._is_done(status):
                    continue
                if self._passes(status, error):
                    again[place] = text
                elif error.get("type") == _MISSING_INDEX and not placeholders(self.index):
                    raise SinkError(f"{self.target} {text}")
                else:
                    refused[place] = text
        except (ValueError, KeyError, TypeError, AttributeError, StopIteration) as error:
            raise TransientError(f"{self.target}: the answer cannot be understood: {error!r}") from error
        if len(items) != part.rows.num_rows:
            raise TransientError(f"{self.target}: the answer has {len(items)} items for {part.rows.num_rows} rows")
        return RequestOutcome(refused, again)

    def probe(self) -> DatabaseRequest:
        return DatabaseRequest("/", method="GET")

    def check_probe(self, answer: HttpClientAnswer) -> None:
        if answer.status != _MAY_NOT_LOOK:  # who may write need not be one who may look at the cluster
            super().check_probe(answer)

    @property
    def _operation(self) -> str:
        if self.action == CREATE and self.id is not None and self.overwrite:
            return "index"
        return self.action

    def _is_done(self, status: int) -> bool:
        if self._operation == CREATE and status == _CONFLICT:  # it is there, by this batch or another
            return True
        return status < 300 or (self.action == DELETE and status == _MISSING)

    def _passes(self, status: int, error: Mapping[str, Any]) -> bool:
        is_race = self.action == UPDATE and status == _CONFLICT
        return status == 429 or status >= 500 or is_race or error.get("type") == _BLOCKED


def _document(value: Any) -> dict[str, Any]:
    found = value
    if isinstance(value, str):
        try:
            found = json.loads(value)
        except (ValueError, RecursionError):
            found = None
    if not isinstance(found, dict):
        raise RefusedRowsError("the document is no JSON object")
    return found


def _sentence(error: Mapping[str, Any]) -> str:
    cause = (error.get("caused_by") or {}).get("reason")
    text = f"{error.get('type', 'no reason')}: {error.get('reason', '')}{f' ({cause})' if cause else ''}"
    return " ".join(text.split())[:_TEXT_MAX]
