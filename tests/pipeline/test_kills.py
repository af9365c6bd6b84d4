"""A short `make kills`: the driver, a Spark worker and the broker are killed once each, or a worker alone, while a lake
runs."""

from pathlib import Path

import pytest

from pipeline_kills.world import World, days_max, kills_max

pytestmark = [pytest.mark.service, pytest.mark.slow]

# With it a worker is killed first and the driver last, so that the run which finishes the work is the one that goes on
# after it.
_SEED = 0


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_lake_holds_everything_once_whatever_was_killed(tmp_path: Path) -> None:
    outcome = World(tmp_path, seed=_SEED, days=8, kills=3).run()
    assert outcome.differences == []
    assert outcome.kills == {"driver": 1, "worker": 1, "broker": 1}
    assert outcome.rows == {"observations": 555, "readings": 555, "quarters": 93}


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_lake_holds_everything_once_when_a_worker_was_killed(tmp_path: Path) -> None:
    outcome = World(tmp_path, seed=_SEED, days=4, kills=1).run()
    assert outcome.differences == []
    assert outcome.kills == {"worker": 1}


def test_more_days_or_kills_than_the_data_has_room_for_are_known() -> None:
    assert days_max() == 364
    assert (kills_max(1), kills_max(8), kills_max(364)) == (0, 4, 260)
