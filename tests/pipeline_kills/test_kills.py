"""The lake of the weather example with driver, Spark worker and broker killed; `make kills` is the long form."""

from pathlib import Path

import pytest

from pipeline_kills.world import World

pytestmark = [pytest.mark.service, pytest.mark.slow]


@pytest.mark.timeout(400)
def test_every_table_equals_the_one_computed_without_spark(tmp_path: Path) -> None:
    outcome = World(tmp_path, seed=1, days=40, kills=3).run()
    assert outcome.kills.total() == 3
    assert not outcome.differences, outcome.text()
