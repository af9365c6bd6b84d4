"""Production code in simulations: whatever happens, what was promised is kept. See docs/simulation.md."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from sim.history import Violation
from sim.mutations import FOUND_BY, MUTATIONS, mutated
from sim.world import Failure, run
from support.forms import seeds

SEEDS = 200
_AT_ONCE = 20
_SHOWN = 60


def check(seed: int, path: Path) -> list[str]:
    try:
        return list(run(seed, path).events)
    except Failure as failure:
        trace = "\n".join(failure.events[-_SHOWN:])
        pytest.fail(f"{trace}\n{failure}\n(again, with everything: scripts/sim.py --seed {seed})", pytrace=False)


def run_all(numbers: Iterable[int], path: Path) -> None:
    for seed in numbers:
        run(seed, path)


@pytest.mark.slow
@pytest.mark.parametrize("part", seeds(SEEDS // _AT_ONCE, 3))
def test_every_promise_is_kept(tmp_path: Path, part: int) -> None:
    for seed in range(part * _AT_ONCE, (part + 1) * _AT_ONCE):
        check(seed, tmp_path)


def test_a_seed_decides_everything(tmp_path: Path) -> None:
    assert check(3, tmp_path) == check(3, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broken_order_is_found(tmp_path: Path, name: str) -> None:
    with mutated(name), pytest.raises(Failure) as caught:
        run_all(sorted(range(SEEDS), key=lambda seed: seed != FOUND_BY[name]), tmp_path)
    assert isinstance(caught.value.__cause__, Violation)
