"""The description of the language, sentence by sentence: `reference_cases.jsonl` as a batch, with both engines.

A line is a case of `heliograph rule test --batch` with `part`, what it is about, and `answer`, what must come out; of
an error only the phase. The cases of the bank have messages and the texts of errors, these have any columns.
"""

import io
import json
import sys
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from heliograph.cli.main import main

# Not `splitlines`: some texts hold what Unicode takes for the end of a line.
LINES: Final = Path(__file__).with_name("reference_cases.jsonl").read_text(encoding="utf-8").strip().split("\n")
CASES: Final[list[dict[str, Any]]] = [json.loads(line) for line in LINES]


def differences(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, lines: list[str], *options: str
) -> list[str]:
    """The cases of some lines whose answers are others than they must be."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\n".join(lines).encode())))
    assert main(["rule", "test", "--batch", *options]) == 0
    answers = capsys.readouterr().out.strip().split("\n")
    return [
        f"{line}\n  gave {answer}"
        for line, answer in zip(lines, answers, strict=True)
        if not is_right(json.loads(line)["answer"], json.loads(answer))
    ]


def is_right(wanted: dict[str, Any], given: dict[str, Any]) -> bool:
    if "rows" not in wanted:
        return wanted["phase"] == given.get("phase") and bool(given["error"])
    # As texts, so that 1, 1.0 and true stay apart; columns have no order.
    return json.dumps(wanted["rows"], sort_keys=True) == json.dumps(given.get("rows"), sort_keys=True)


def test_there_are_cases_of_each_part_that_succeed_and_that_fail() -> None:
    parts = {case["part"] for case in CASES}
    succeeding = Counter(case["part"] for case in CASES if "rows" in case["answer"])
    failing = Counter(case["part"] for case in CASES if "phase" in case["answer"])
    without_failure = {"values", "topics", "SELECT"}
    assert [part for part in parts if succeeding[part] < 3 or (failing[part] < 3 and part not in without_failure)] == []


def test_broker_gives_what_the_description_says(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert differences(capsys, monkeypatch, LINES) == []


@pytest.mark.slow
@pytest.mark.service
def test_spark_gives_what_the_description_says(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # There is one Spark session in a process, and the other tests have theirs already. What a test finds for itself of
    # a machine differs, so that no program is stopped at its timeout here.
    monkeypatch.setattr("heliograph.pipeline.spark.session.spark_session", lambda *_, **__: nullcontext(spark))
    lines = [line for line in LINES if "def f: f" not in line]
    assert differences(capsys, monkeypatch, lines, "--engine", "spark") == []
