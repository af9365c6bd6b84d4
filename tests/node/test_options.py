"""From settings to the parts of a node: what an operator may write is what the parts know."""

from dataclasses import MISSING, fields
from pathlib import Path

from heliograph.broker import shared_options
from heliograph.broker.hooks import Hooks
from heliograph.channel.options import ChannelOptions, ListenerOptions
from heliograph.config.loading import load_config
from heliograph.config.mqtt import INITIAL_STICKY_PICKS, SHARED_STRATEGIES, MqttConfig
from heliograph.config.settings import levels_max
from heliograph.node.options import make_broker
from heliograph.retainer.options import RetainerOptions
from heliograph.session.options import SessionOptions
from heliograph.settings.fields import settings_of
from heliograph.settings.records import setting_of
from support.cases import cases

# What is used elsewhere: shared groups choose by it, or clients get their names and attributes by it.
_NO_OPTIONS = {"shared_subscription_strategy", "shared_subscription_initial_sticky_pick"}
_NO_OPTIONS |= {"peer_cert_as_username", "peer_cert_as_clientid", "client_attrs_init"}


@cases("record", [ChannelOptions, ListenerOptions, RetainerOptions, SessionOptions])
def test_the_default_of_an_option_stands_at_its_setting_alone(
    record: type[ChannelOptions | ListenerOptions | RetainerOptions | SessionOptions],
) -> None:
    assert [each.name for each in fields(record) if (each.default, each.default_factory) != (MISSING, MISSING)] == []


def test_every_setting_of_mqtt_is_one_option() -> None:
    options = [setting_of(each.name)[0] for record in (ChannelOptions, SessionOptions) for each in fields(record)]
    assert {name: options.count(name) for name in settings_of(MqttConfig) if options.count(name) != 1} == dict.fromkeys(
        _NO_OPTIONS, 0
    )


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
