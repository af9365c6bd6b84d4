"""Many cases in one test: all are tried, and the failure names each that failed, with its values and its place.

`cases` takes what `pytest.mark.parametrize` takes. A bank then is one report instead of one for each case, which saves
the millisecond or two that fixtures, hooks and timers cost around a case. Pytest's own `subtests` makes a report for
each case as well, captures its output, and sends it from workers.

Fixtures are made once for all cases. Those of pytest that collect something are fresh for each: `tmp_path` is an empty
folder, `monkeypatch` is undone, `capsys` and `caplog` are empty. Tasks that a case leaves are cancelled where no other
fixture may own them. What else a case changes, it makes itself. A test whose own fixtures must be new for each case, or
of which one case takes seconds, stays parametrized.
"""

import asyncio
import functools
import inspect
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest
from _pytest._io.saferepr import saferepr
from _pytest.mark import ParameterSet

Test: TypeAlias = Callable[..., Any]
Values: TypeAlias = Iterable[Any] | Callable[[], Iterable[Any]]
Names: TypeAlias = Collection[str] | Callable[[Any], str]
Parts: TypeAlias = tuple[tuple[str, dict[str, object]], ...]

_NAME_LENGTH_MAX: Final = 300
_SHOWN_MAX: Final = 20
_FAULTS: Final = (Exception, pytest.fail.Exception, pytest.skip.Exception)  # a case that is skipped would skip others
_OF_PYTEST: Final = {"tmp_path", "monkeypatch", "capsys", "caplog"}
_TIMEOUT: Final = "Timeout (>"  # pytest-timeout says it once for the whole test


def cases(names: str | Sequence[str], values: Values, *, ids: Names = ()) -> Callable[[Test], Test]:
    """Call a test with each of many values; above another `cases`, with each of both.

    It stands above `given`: each case then has its own examples.

    Args:
        names: The arguments of the test that a case gives, as a sequence or with commas between.
        values: A value for each case, several where there are several names. A function that returns them is called
            when the test runs: what takes long does not hold up the collection of all tests.
        ids: The names of the cases, or a function that returns the name of a value; by default the values.
    """
    arguments = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    values = values if callable(values) else list(values)

    def decorate(test: Test) -> Test:
        return _bank(getattr(test, "one_case", test), [_Axis(arguments, values, ids), *getattr(test, "axes", ())])

    return decorate


@dataclass(frozen=True)
class _Axis:
    """The values that one decorator gives."""

    names: list[str]
    values: Values
    ids: Names

    def cases(self) -> Iterator[tuple[str, dict[str, object]]]:
        """The name of each case, which is empty where its values name it, and its arguments."""
        values = list(self.values() if callable(self.values) else self.values)
        names = [self.ids(value) for value in values] if callable(self.ids) else self.ids or [""] * len(values)
        for value, name in zip(values, names, strict=True):
            found = (value,) if len(self.names) == 1 else value
            if isinstance(value, ParameterSet):
                assert not value.marks, "marks are of the test, not of a case"
                name, found = str(value.id or name), value.values
            yield name, dict(zip(self.names, found, strict=True))


def _bank(test: Test, axes: list[_Axis]) -> Test:
    """The test as pytest finds it: with those arguments that are no case's."""

    def all_cases() -> Iterator[tuple[Parts, dict[str, object]]]:
        for parts in itertools.product(*(list(axis.cases()) for axis in axes)):
            yield parts, {name: value for _, arguments in parts for name, value in arguments.items()}

    if inspect.iscoroutinefunction(test):

        @functools.wraps(test)
        async def bank(**fixtures: object) -> None:
            failures: list[str] = []
            for number, (parts, arguments) in enumerate(all_cases()):
                others = asyncio.all_tasks()
                with _noted(failures, parts), _fresh(fixtures, number) as fresh:
                    await test(**fresh, **arguments)
                if fixtures.keys() <= _OF_PYTEST:
                    for task in (left := asyncio.all_tasks() - others):
                        task.cancel()
                    await asyncio.gather(*left, return_exceptions=True)
            _tell(failures)

    else:

        @functools.wraps(test)
        def bank(**fixtures: object) -> None:
            failures: list[str] = []
            for number, (parts, arguments) in enumerate(all_cases()):
                with _noted(failures, parts), _fresh(fixtures, number) as fresh:
                    test(**fresh, **arguments)
            _tell(failures)

    given = {name for axis in axes for name in axis.names}
    signature = inspect.signature(test)
    left = [parameter for name, parameter in signature.parameters.items() if name not in given]
    assert len(left) + len(given) == len(signature.parameters), "each name is an argument of the test, and one only"
    vars(bank).update(__signature__=signature.replace(parameters=left), one_case=test, axes=axes)
    return bank


@contextmanager
def _fresh(fixtures: Mapping[str, object], number: int) -> Iterator[dict[str, object]]:
    """Fixtures for one case."""
    with ExitStack() as stack:
        fresh = dict(fixtures)
        for name, value in fixtures.items():
            match value:
                case Path() if name == "tmp_path":
                    fresh[name] = value / str(number)
                    (value / str(number)).mkdir()
                case pytest.MonkeyPatch():
                    fresh[name] = stack.enter_context(value.context())
                case pytest.CaptureFixture():
                    value.readouterr()
                case pytest.LogCaptureFixture():
                    value.clear()
        yield fresh


@contextmanager
def _noted(failures: list[str], parts: Parts) -> Iterator[None]:
    """Keep what a case raises, so that the others are tried."""
    try:
        yield
    except _FAULTS as fault:
        if str(fault).startswith(_TIMEOUT):
            raise
        info = pytest.ExceptionInfo.from_exception(fault)
        info.traceback = info.traceback.filter(lambda entry: str(entry.path) != __file__)
        shown = f"\n{info.getrepr(style='short')}" if len(failures) < _SHOWN_MAX else ""
        failures.append(f"case {_name(parts)}{shown}")


def _name(parts: Parts) -> str:
    """The name of a case: its own, else its values."""
    words = (
        name or ", ".join(f"{key}={saferepr(value)}" for key, value in arguments.items()) for name, arguments in parts
    )
    name = ", ".join(words)
    return name if len(name) <= _NAME_LENGTH_MAX else f"{name[:_NAME_LENGTH_MAX]}…"


def _tell(failures: list[str]) -> None:
    if failures:
        pytest.fail("\n\n".join([*failures, f"cases that failed: {len(failures)}"]), pytrace=False)
