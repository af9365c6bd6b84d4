"""The sink `elasticsearch` and an implementation of its bulk API: which documents there are afterwards."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.sinks.probing import target_fault
from support.elasticsearch import Elasticsearch, elasticsearch
from support.sinks import Refused, batch_of, sink_of, write_rows

pytestmark = [pytest.mark.service]

_QUICK = "retry { first_pause = 1ms, attempts = 3 }"
_ROW = 'doc = "${payload}"'


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Elasticsearch]:
    with elasticsearch(tmp_path) as running:
        yield running


def test_rows_are_documents_once_however_often_they_are_sent(server: Elasticsearch) -> None:
    sink = sink_of(server.section(f'action = create, index = "obs-${{payload.day}}", {_ROW}, batch_rows = 2'))
    rows = [{"day": n % 2, "t": f"ü{n}"} for n in range(5)]
    for number in (0, 0, 1):
        write_rows(sink, batch_of(number), *rows)
    held = {index: sorted(document["t"] for document in found.values()) for index, found in server.documents.items()}
    assert held == {"obs-0": ["ü0", "ü0", "ü2", "ü2", "ü4", "ü4"], "obs-1": ["ü1", "ü1", "ü3", "ü3"]}


def test_documents_are_replaced_kept_updated_and_deleted(server: Elasticsearch) -> None:
    def write(more: str, row: dict[str, object], refused: Refused | None = None) -> None:
        sink = sink_of(server.section(f'index = i, id = "${{payload.id}}", doc = "${{payload.doc}}", {more}'))
        write_rows(sink, batch_of(0, refused), row)

    write("action = create", {"id": "a", "doc": {"n": 1, "m": 1}})
    write("action = create", {"id": "a", "doc": '{"n": 2}'})
    assert server.documents["i"] == {"a": {"n": 2}}
    write("action = create, overwrite = false", {"id": "a", "doc": {"n": 3}})
    write("action = update", {"id": "a", "doc": {"m": 4}})
    assert server.documents["i"] == {"a": {"n": 2, "m": 4}}
    refused = Refused()
    write("action = update", {"id": "b", "doc": {"m": 5}}, refused)
    assert "document_missing_exception" in refused.rows[0][1]
    write("action = update, doc_as_upsert = true", {"id": "b", "doc": {"m": 5}})
    write("action = delete", {"id": "a"})
    write("action = delete", {"id": "a"})  # as after an answer that was lost
    assert server.documents["i"] == {"b": {"m": 5}}


def test_each_row_is_judged_alone(server: Elasticsearch) -> None:
    sink = sink_of(server.section(f'action = create, index = i, id = "${{payload.id}}", {_ROW}, {_QUICK}'))
    refused = Refused()
    server.busy = 3
    rows = [{"id": str(n), "n": "text" if n == 7 else n} for n in range(10)]
    rows[9]["id"] = "x" * 600
    figures = write_rows(sink, batch_of(0, refused), *rows).figures
    assert (figures["rows"], figures["refused"], figures["retries"], server.bulks) == (8, 2, 1, 2)
    assert sorted(json.loads(row["payload"])["n"] for row, reason in refused.rows if "parse" in reason) == ["text"]
    assert len(server.documents["i"]) == 8
    server.busy = 100
    with pytest.raises(SinkError, match=r"es_rejected_execution_exception.*tried 3 times"):
        write_rows(sink, batch_of(1), *rows[:2])


def test_what_is_no_document_is_refused(server: Elasticsearch) -> None:
    sink = sink_of(server.section('action = create, index = i, doc = "${payload.doc}"'))
    refused = Refused()
    rows: list[dict[str, object]] = [{"doc": {"n": 1}}, {"doc": [1]}, {"doc": "text"}, {}]
    assert write_rows(sink, batch_of(0, refused), *rows).figures["rows"] == 1
    assert {reason for _, reason in refused.rows} == {"the document is no JSON object"}


def test_a_server_that_refuses_us_costs_no_row(server: Elasticsearch) -> None:
    section = server.section(f"action = create, index = nowhere, {_ROW}, {_QUICK}")
    server.may_create = False
    with pytest.raises(SinkError, match=r"index_not_found_exception"):
        write_rows(sink_of(section), batch_of(0), {"n": 1})
    assert target_fault(sink_of(section), "") is None
    wrong = sink_of(section.replace("p's w", "s3cret"))
    with pytest.raises(SinkError, match="answered 401") as raised:
        write_rows(wrong, batch_of(0), {"n": 1})
    assert "s3cret" not in f"{raised.value}{wrong}"
    assert "answered 401" in (target_fault(wrong, "") or "")
    assert "certificate" in (
        target_fault(sink_of(section.replace(f'cacertfile = "{server.cafile}"', "enable = true")), "") or ""
    )
    away = sink_of(section.replace(f":{server.port}", ":9"))
    with pytest.raises(SinkError, match="tried 3 times"):
        write_rows(away, batch_of(0), {"n": 1})
