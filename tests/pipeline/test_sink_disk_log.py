"""The sink `disk_log`: what its files hold, also after a batch that was interrupted."""

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from heliograph.pipeline.errors import RuleFileError, SinkError
from heliograph.pipeline.sinks import MicroBatch, Written
from heliograph.pipeline.sinks.probing import target_fault
from support.cases import cases
from support.sinks import batch_of, sink_of, write_rows

ROW = 'template = "${payload}"'


def write(output: Path, more: str, number: int, *values: object, query: str = "obs") -> Written:
    sink = sink_of(f'{{ type = disk_log, path = "a/log", {more} }}')
    batch: MicroBatch = replace(batch_of(number, query=query), output=output)
    return write_rows(sink, batch, *({"v": value} for value in values))


def held(output: Path) -> dict[str, list[object]]:
    files = sorted((output / "disk_log" / "a").glob("log.[0-9]*"))
    return {file.suffix: [json.loads(line)["v"] for line in file.read_text().splitlines()] for file in files}


def test_lines_are_written_in_turn_and_each_batch_once(tmp_path: Path) -> None:
    more = f"max_file_size = 20B, max_file_number = 3, {ROW}"  # a row has 9 bytes with its line's end
    write(tmp_path, more, 0, 1, 2, 3)
    assert held(tmp_path) == {".1": [1, 2], ".2": [3]}
    assert write(tmp_path, more, 0, 1, 2, 3).figures["repeated"] == 1
    write(tmp_path, more, 0, 4, query="other")
    assert held(tmp_path) == {".1": [1, 2], ".2": [3, 4]}
    write(tmp_path, more, 1, 5, 6, 7)
    assert held(tmp_path) == {".1": [7], ".2": [3, 4], ".3": [5, 6]}
    write(tmp_path, more, 2, "a line that is longer than a file may be", 8)
    assert held(tmp_path) == {".1": [7], ".2": ["a line that is longer than a file may be"], ".3": [8]}
    write(tmp_path, more.replace("= 3", "= 1"), 3, 9, 10, 11)
    assert held(tmp_path)[".1"] == [10, 11]


@cases(
    ("count", "before", "after"),
    [
        (3, {".1": [1]}, {".1": [1, 2], ".2": [3, 4], ".3": [5]}),
        (1, {".1": [1]}, {".1": [4, 5]}),
    ],
)
def test_a_batch_that_was_interrupted_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, before: object, after: object
) -> None:
    more = f"max_file_size = 20B, max_file_number = {count}, {ROW}, retry {{ attempts = 1 }}"
    write(tmp_path, more, 0, 1)
    assert held(tmp_path) == before
    force, left = os.fsync, [6]

    def fail(descriptor: int) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(28, "No space left on device")
        force(descriptor)

    for steps in range(12):
        left[0] = steps
        monkeypatch.setattr(os, "fsync", fail)
        try:
            write(tmp_path, more, 1, 2, 3, 4, 5)
        except SinkError:
            continue
        finally:
            monkeypatch.setattr(os, "fsync", force)
        break
    assert steps > 4
    assert held(tmp_path) == after


def test_what_cannot_be_written_is_told(tmp_path: Path) -> None:
    size = f"max_file_size = 1MB, max_file_number = 2, {ROW}"
    (tmp_path / "disk_log").write_text("no directory")
    with pytest.raises(SinkError, match=r"a/log\.1 to \.2: .*(Not a directory|File exists)"):
        write(tmp_path, size, 0, 1)
    inside = sink_of(f'{{ type = disk_log, path = "{tmp_path}/disk_log/x/y", {size} }}')
    assert "no directory that may be written to" in (target_fault(inside, "") or "")
    assert target_fault(sink_of(f'{{ type = disk_log, path = "{tmp_path}/new/log", {size} }}'), "") is None
    for path in ("../x", "a/../../x", "a/", ""):
        with pytest.raises(RuleFileError, match=re.escape("a path without ..")):
            sink_of(f'{{ type = disk_log, path = "{path}", {size} }}')


def test_a_row_is_one_line_whatever_it_has(tmp_path: Path) -> None:
    def lines(template: str, *values: object) -> list[str]:
        number = len(list(tmp_path.iterdir()))
        write(tmp_path / str(number), f"max_file_size = 1MB, max_file_number = 1, template = {template}", 0, *values)
        return (tmp_path / str(number) / "disk_log" / "a" / "log.1").read_text().split("\n")

    assert lines('"${payload.v} end"', "a\nb", "c\r\nd") == [r"a\nb end", r"c\r\nd end", ""]
    assert lines('"{\\"v\\": \\"${payload.v}\\"}"', "a\nb") == [r'{"v": "a\nb"}', ""]
    assert lines('"${payload.v}"', '{\n  "w": 1.50\r\n}') == ['{   "w": 1.50  }', ""]
    assert lines('"""{\n  "v": ${payload.v}\n}\n"""', 7) == ['{ "v": 7 }', ""]
