"""`support.cases`: every case is tried, and the failure names those that failed."""

import asyncio
import inspect
import sys
from pathlib import Path

import pytest

from support.cases import Test, cases


def failure_of(bank: Test, **fixtures: object) -> str:
    """What a test of many cases fails with."""
    with pytest.raises(pytest.fail.Exception) as failed:
        bank(**fixtures)
    return str(failed.value)


def test_all_cases_are_tried_and_those_that_fail_are_named() -> None:
    tried: list[tuple[int, str]] = []

    @cases("number", [1, 2, pytest.param(3, id="three")])
    @cases("word", ["a", "b"])
    def bank(number: int, word: str) -> None:
        tried.append((number, word))
        assert (number, word) not in ((1, "b"), (3, "a")), "an odd pair"

    text = failure_of(bank)
    assert tried == [(number, word) for number in (1, 2, 3) for word in ("a", "b")]
    assert "case number=1, word='b'\n" in text
    assert "case three, word='a'\n" in text
    assert text.count("AssertionError: an odd pair") == text.count("case ") == 2
    assert text.count("test_cases.py:") == 2, "each failure has its line"
    assert text.endswith("cases that failed: 2")


def test_what_is_no_assertion_fails_as_well() -> None:
    @cases("number", [0, 1, 2], ids=["zero", "one", "two"])
    def bank(number: int) -> None:
        if number == 1:
            pytest.skip("not here")
        with pytest.raises(ZeroDivisionError):
            divmod(1, number)

    text = failure_of(bank)
    assert "case zero" not in text
    assert "case one" in text
    assert "case two" in text


def test_a_test_that_takes_too_long_ends() -> None:
    @cases("number", [0, 1])
    def bank(number: int) -> None:
        pytest.fail(f"Timeout (>{number}s) from pytest-timeout.")

    assert failure_of(bank) == "Timeout (>0s) from pytest-timeout."


def test_values_may_be_found_when_the_test_runs() -> None:
    looked: list[str] = []

    def values() -> list[str]:
        looked.append("values")
        return ["a"]

    @cases("word", values, ids=str.upper)
    def bank(word: str) -> None:
        raise ValueError(word)

    assert looked == []
    assert failure_of(bank).startswith("case A\n")
    assert looked == ["values"]


def test_fixtures_that_collect_are_empty_for_each_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @cases("number", [0, 1])
    def bank(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        assert list(tmp_path.iterdir()) == []
        (tmp_path / "file").touch()
        monkeypatch.setattr(Path, "a_name", number, raising=False)
        sys.stdout.write(str(number))

    assert list(inspect.signature(bank).parameters) == ["tmp_path", "monkeypatch", "capsys"]
    bank(tmp_path=tmp_path, monkeypatch=monkeypatch, capsys=capsys)
    assert capsys.readouterr().out == "1"
    assert not hasattr(Path, "a_name")


async def test_tasks_that_a_case_leaves_end_before_the_next() -> None:
    left: list[asyncio.Task[bool]] = []

    @cases("number", [0, 1])
    async def bank(number: int) -> None:
        assert all(task.cancelled() for task in left)
        left.append(asyncio.create_task(asyncio.Event().wait(), name=str(number)))

    await bank()
    assert [task.cancelled() for task in left] == [True, True]


def test_a_name_that_is_no_argument_is_a_mistake() -> None:
    def bank(number: int) -> None: ...

    with pytest.raises(AssertionError, match="an argument of the test"):
        cases("numbr", [1])(bank)
