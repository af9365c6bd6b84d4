"""Dead letters of an action without Spark: replayed at its target, also those that Spark's query of it kept."""

import base64
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from heliograph.pipeline.datasource.offsets import make_offset
from heliograph.pipeline.errors import CheckpointInUseError, SinkError
from heliograph.pipeline.runner.place import ActionPlace
from heliograph.pipeline.runner.replay import replay_letters
from heliograph.pipeline.running.identity import new_identity, write_identity
from heliograph.pipeline.side_outputs.dead_letter_table import Replayed, count_letters, show_letters
from heliograph.pipeline.side_outputs.replayed_files import ReplayedFile
from heliograph.pipeline.side_outputs.retention import Retention, keep_within
from pipeline.runner_settings import web_settings
from support.webhook import Answer, Posted, webhook

_SPARK = pa.schema(
    [
        *((name, pa.string()) for name in ("rule", "cause", "reason", "query")),
        ("batch", pa.int64()),
        ("refused_at", pa.timestamp("ns")),
        ("guid", pa.binary()),
        ("topic", pa.string()),
        ("payload", pa.binary()),
        ("row", pa.string()),
        ("replayed_at", pa.timestamp("ns")),
    ]
)


def write_letters(directory: Path, batch: int, *letters: dict[str, object], of_spark: bool) -> None:
    """A batch of the table; Spark writes times in Parquet's older form."""
    same = {
        "rule": "web",
        "cause": "sink",
        "reason": "no",
        "query": "web",
        "batch": batch,
        "refused_at": 10**18 + batch,
    }
    schema = _SPARK
    if not of_spark:
        same["refused_at"] = 10**15 + batch
        for name in ("refused_at", "replayed_at"):
            schema = schema.set(schema.get_field_index(name), pa.field(name, pa.timestamp("us", "UTC")))
    place = directory / "output" / "dead_letters" / "web" / f"0123abcd-{batch:08d}"
    place.mkdir(parents=True)
    table = pa.Table.from_pylist([{**same, **letter} for letter in letters], schema)
    pq.write_table(table, place / "part-0.parquet", use_deprecated_int96_timestamps=of_spark)


def test_letters_of_both_engines_are_replayed_once(tmp_path: Path) -> None:
    identity = new_identity({"web": "earliest"})
    write_identity(tmp_path / "checkpoint" / "web", identity)
    text = json.dumps({"payload": base64.b64encode(b"three").decode()})
    write_letters(
        tmp_path,
        1,
        {"topic": "t", "payload": b"one"},
        {"topic": None, "row": text},
        {"topic": None, "row": "{'payload': no JSON}"},
        of_spark=True,
    )
    write_letters(tmp_path, 2, {"topic": "t", "payload": b"two"}, {"topic": "t", "payload": b"refused"}, of_spark=False)
    table = tmp_path / "output" / "dead_letters"
    (count,) = count_letters(table)
    assert (count.waiting, count.replayed) == (5, 0)
    with webhook() as web:
        settings = web_settings(tmp_path, web.url)
        (action,) = settings.actions
        web.answer = lambda request: Answer(503)
        with pytest.raises(SinkError):
            replay_letters(action, settings)
        assert count_letters(table)[0].waiting == 5
        web.requests.clear()
        web.answer = _but_refused
        assert replay_letters(action, settings) == Replayed(3, 3, 2)
        assert sorted(request.body for request in web.requests) == [b"one", b"refused", b"three", b"two"]
        assert replay_letters(action, settings) == Replayed(0, 0, 2)
        assert web.requests[-1].body == b"refused"
        assert len(web.requests) == 5
    (count,) = count_letters(table)
    assert (count.waiting, count.replayed) == (2, 3)
    reasons = [str(letter.to_json()["reason"]) for letter in show_letters(table, "web", 10)]
    assert any("422" in reason for reason in reasons)
    assert any("nothing can be made of it again" in reason for reason in reasons)
    assert keep_within(table, Retention(-1), {"other"}).batches == 0
    assert keep_within(table, Retention(-1), {"web"}).rows == 5


def _but_refused(request: Posted) -> Answer:
    return Answer(422 if request.body == b"refused" else 200)


def test_what_a_killed_replay_was_refused_stays_a_letter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sink that knows its batches does not bring one again, and so refuses nothing of it again."""
    write_identity(tmp_path / "checkpoint" / "web", new_identity({"web": "earliest"}))
    write_letters(tmp_path, 1, {"topic": "t", "payload": b"one"}, {"topic": "t", "payload": b"refused"}, of_spark=False)
    with webhook() as web:
        web.answer = _but_refused
        settings = web_settings(tmp_path, web.url)
        (action,) = settings.actions

        def killed(*_: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(ReplayedFile, "mark", killed)
            with pytest.raises(KeyboardInterrupt):
                replay_letters(action, settings)
        web.answer = lambda request: Answer()  # what knows the batch refuses nothing
        assert replay_letters(action, settings) == Replayed(1, 1, 1)
        (letter,) = (one.to_json() for one in show_letters(tmp_path / "output" / "dead_letters", "web", 10))
        assert "422" in str(letter["reason"])
        assert replay_letters(action, settings) == Replayed(1, 1, 0)


def test_an_action_goes_back_to_the_last_end_that_the_disk_has(tmp_path: Path) -> None:
    """A power failure may leave files without what was written to them."""

    def place(*, is_sure: bool = False) -> ActionPlace:
        return ActionPlace(tmp_path, "$pipeline/http:web/+", lambda: "earliest", is_sure=is_sure)

    first = place()
    for number in range(3):
        first.begin(make_offset({"s": str(number)}, None))
        first.finish()
    first.begin(make_offset({"s": "3"}, None))
    (tmp_path / "offsets" / "3").write_bytes(b"")
    (tmp_path / "offsets" / "2").write_bytes(b"v1\n{")
    with pytest.raises(CheckpointInUseError):
        place(is_sure=True)
    found = place()
    assert (found.batch, found.reached["streams"], found.begun) == (2, {"s": "1"}, None)
    found.begin(make_offset({"s": "4"}, None))
    assert place().begun is not None
    (tmp_path / "offsets" / "2").unlink()
    assert (place().batch, place().begun) == (2, None)
