"""Stores of every kind, for tests that each must pass."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from heliograph.retainer.retainer import Retainer
from retainer.retaining import KINDS, close, make_retainer
from support.options import RETAINER

MakeRetainer = Callable[..., Retainer]


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MakeRetainer]:
    """A function that makes a store with options by their names; it is closed at the end."""
    made: list[Retainer] = []

    def make_one(**options: object) -> Retainer:
        path = tmp_path / str(len(made))
        made.append(make_retainer(request.param, path, replace(RETAINER, **options)))  # type: ignore[arg-type]  # they are options by name
        return made[-1]

    yield make_one
    for retainer in made:
        close(retainer)
