"""A broker that is killed, loses its power and its disk under load: no promise to its clients is broken.

`make crash` makes the same run with more than a hundred kills, and other seeds.
"""

from pathlib import Path

import pytest

from crash.fault_layer import FaultLayerError, build
from crash.full_disk import FullDiskPlan, NoFileSystemError, fill_a_disk
from crash.storm import Plan, lives, storm

pytestmark = [pytest.mark.service, pytest.mark.slow]


SEED = 1  # with power failures and disk faults among its first lives


@pytest.fixture(autouse=True)
def _compiler(tmp_path: Path) -> None:
    try:
        build(tmp_path)
    except FaultLayerError as error:
        pytest.skip(str(error))


async def test_no_promise_is_broken(tmp_path: Path) -> None:
    outcome = await storm(tmp_path, Plan(8, seed=SEED))
    assert not outcome.violations, "\n".join(map(str, outcome.violations[:10]))
    for name in ("acknowledged", "resumed_sessions", "power_failures", "disk_faults"):
        assert outcome.counts[name] > 0, f"the run had no {name}: choose another seed"


async def test_a_disk_that_fills_up_and_has_room_again(tmp_path: Path) -> None:
    try:
        outcome = await fill_a_disk(tmp_path, FullDiskPlan())
    except NoFileSystemError as error:
        pytest.skip(str(error))
    assert not outcome.violations, "\n".join(map(str, outcome.violations[:10]))
    assert outcome.counts["refused"] > 0


def test_the_same_seed_makes_the_same_choices() -> None:
    assert list(lives(Plan(100, seed=5))) == list(lives(Plan(100, seed=5)))
    assert list(lives(Plan(100, seed=5))) != list(lives(Plan(100, seed=6)))
    assert sum(life.end != "stop" for life in lives(Plan(100))) == 100
