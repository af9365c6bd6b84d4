"""What differs between two configurations, and what of it waits for the next start."""

from dataclasses import replace

from heliograph.config.differences import differences, until_restart
from heliograph.config.listeners import TcpListener
from heliograph.config.rules import RuleConfig
from heliograph.config.settings import Config
from heliograph.settings.fields import How


def test_settings_that_need_a_restart_keep_their_values() -> None:
    old, listener = Config(), replace(TcpListener(), max_connections=1)
    new = replace(
        old,
        mqtt=replace(old.mqtt, max_inflight=7),
        node=replace(old.node, name="other@host"),
        listeners=replace(old.listeners, tcp={"default": listener}),
    )
    found = {one.path: (one.old, one.new) for one in differences(old, new)}
    assert found == {
        "node.name": ("heliograph@127.0.0.1", "other@host"),
        "listeners.tcp.default.max_connections": (None, 1),
        "mqtt.max_inflight": (32, 7),
    }
    assert [one.path for one in differences(old, new) if one.how is How.RESTART] == ["node.name"]
    merged = until_restart(old, new)
    assert merged == replace(new, node=old.node)
    assert until_restart(old, old) is old


def test_a_group_under_a_name_comes_or_goes_as_its_declaration_says() -> None:
    old = Config()
    rules = replace(old.rule_engine, rules={"one": RuleConfig(sql="SELECT 1")})
    (found,) = differences(old, replace(old, rule_engine=rules))
    assert (found.path, found.old, found.how) == ("rule_engine.rules.one", None, How.LIVE)
    assert until_restart(old, replace(old, rule_engine=rules)).rule_engine.rules == rules.rules
    assert until_restart(replace(old, rule_engine=rules), old) == old
    databases = replace(old.durable_storage, databases={"more": old.durable_storage.messages})
    (found,) = differences(old, replace(old, durable_storage=databases))
    if found.how is How.RESTART:
        assert until_restart(old, replace(old, durable_storage=databases)) == old
