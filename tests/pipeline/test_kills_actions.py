"""A short `make kills-actions`: the runner, the node and a target are killed once each, with one target of each
guarantee."""

from pathlib import Path

import pytest

from pipeline_kills.actions import KILLED, ActionsWorld

pytestmark = [pytest.mark.service, pytest.mark.slow, pytest.mark.timeout(300)]


def test_targets_have_what_their_guarantees_say_whatever_was_killed(tmp_path: Path) -> None:
    outcome = ActionsWorld(tmp_path, seed=1, kills=dict.fromkeys(KILLED, 1), targets=["redis", "http", "kafka"]).run()
    assert outcome.faults == []
    assert outcome.kills == dict.fromkeys(KILLED, 1)
    assert min(outcome.rows.values()) >= outcome.acknowledged > 0
