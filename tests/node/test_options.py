"""From settings to the parts of a node: what an operator may write is what the parts know."""

from pathlib import Path

from heliograph.broker import shared_options
from heliograph.broker.hooks import Hooks
from heliograph.config import load_config
from heliograph.config.mqtt import INITIAL_STICKY_PICKS, SHARED_STRATEGIES
from heliograph.config.zones import levels_max
from heliograph.node.options import make_broker


def test_every_strategy_of_the_settings_is_one_of_the_kernel() -> None:
    assert sorted(SHARED_STRATEGIES) == sorted(shared_options.STRATEGIES)
    assert sorted(INITIAL_STICKY_PICKS) == sorted(shared_options.INITIAL_STICKY_PICKS)


def test_a_group_may_have_a_strategy_and_a_first_pick_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "node.conf"
    file.write_text("broker.shared_subscription_group.g { strategy = sticky, initial_sticky_pick = hash_topic }")
    options = make_broker(load_config(file, {}), Hooks()).shared.options
    assert (options.strategy, options.group_strategies) == ("round_robin", {"g": "sticky"})
    assert options.group_initial_sticky_picks == {"g": "hash_topic"}


def test_a_topic_may_have_as_many_levels_as_the_most_generous_zone_allows(tmp_path: Path) -> None:
    file = tmp_path / "node.conf"
    file.write_text("mqtt.max_topic_levels = 10\nzones.deep.mqtt.max_topic_levels = 200")
    assert levels_max(load_config(file, {})) == 200
