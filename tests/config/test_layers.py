"""The layers of a node's configuration: which wins, where each value comes from, and which values are not shown."""

import json
from pathlib import Path

import pytest

from heliograph.cli.main import main
from heliograph.config.effective import effective_settings
from heliograph.config.layers import Sources
from heliograph.config.loading import config_of, load_config
from heliograph.config.settings import Config
from heliograph.hocon.document import parse_text
from heliograph.hocon.values import to_plain
from heliograph.settings.errors import ConfigError
from heliograph.settings.fields import settings_of
from heliograph.settings.masking import NoSecretError, kept_secrets, masked


class Site:
    """The files of one node, each with what a test writes into it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.file = directory / "node.conf"
        self.data_dir = directory / "data"
        self.cluster = self.data_dir / "configs" / "cluster.hocon"
        self.cluster.parent.mkdir(parents=True)
        self.file.write_text("")

    def sources(self, environ: dict[str, str] | None = None, base: Path | None = None) -> Sources:
        return Sources(self.file, environ or {}, {"node.data_dir": str(self.data_dir)}, base)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_each_layer_wins_over_those_below_it(site: Site) -> None:
    (site.directory / "base.hocon").write_text("mqtt { max_inflight = 1, max_qos_allowed = 0, max_topic_levels = 9 }")
    site.cluster.write_text("mqtt { max_inflight = 2, max_qos_allowed = 1 }\nzones.z.mqtt.max_inflight = 8")
    site.file.write_text("mqtt {\n max_inflight = 3 }")
    sources = site.sources({"HELIOGRAPH_MQTT__MAX_INFLIGHT": "4"})
    layers = sources.read()
    config = config_of(layers)
    assert (config.mqtt.max_inflight, config.mqtt.max_qos_allowed, config.mqtt.max_topic_levels) == (4, 1, 9)
    assert config.zones["z"].mqtt.max_topic_levels == 9
    for path, origin in (
        ("mqtt.max_inflight", "environment: HELIOGRAPH_MQTT__MAX_INFLIGHT"),
        ("mqtt.max_qos_allowed", f"cluster: {site.cluster}:1"),
        ("mqtt.max_topic_levels", f"base: {site.directory}/base.hocon:1"),
        ("node.data_dir", "command line"),
        ("zones.z.mqtt.max_inflight", f"cluster: {site.cluster}:2"),
    ):
        assert str(layers.origin(path.split("."))) == origin
    assert layers.origin(("log", "console", "level")) is None
    assert str(site.sources().read().origin(("mqtt", "max_inflight"))) == f"node: {site.file}:2"


def test_the_settings_of_a_root_are_those_that_all_have_of_it(site: Site) -> None:
    site.file.write_text("""
        mqtt.max_inflight = 3
        listeners.tcp.more { bind = 1884, zone = z }
        zones.z.mqtt.max_inflight = 8
        authentication = [{ mechanism = scram, backend = built_in_database }]
        rule_engine.rules.one.sql = "SELECT * FROM \\"t\\""
    """)
    layers = site.sources().read()
    everything = list(effective_settings(layers))
    for root in settings_of(Config):
        own = [one for one in everything if one.path.partition(".")[0] == root]
        assert list(effective_settings(layers, root)) == own, root


def test_a_base_that_is_named_must_be_there_and_replaces_the_one_beside_the_file(site: Site) -> None:
    (site.directory / "base.hocon").write_text("mqtt.max_inflight = 1")
    other = site.directory / "other.hocon"
    with pytest.raises(ConfigError, match="there is no such file"):
        site.sources(base=other).read()
    other.write_text("mqtt.max_inflight = 5")
    assert load_config(site.file, {}, {"node.data_dir": str(site.data_dir)}, base=other).mqtt.max_inflight == 5


def test_lists_are_replaced_and_elements_of_lower_layers_edited(site: Site) -> None:
    (site.directory / "base.hocon").write_text(
        'rewrite = [{ action = all, source_topic = "a/#", re = "^a/(.+)$", dest_topic = "b/$1" }]'
    )
    site.cluster.write_text('rewrite.1.dest_topic = "c/$1"')
    layers = site.sources().read()
    (rule,) = config_of(layers).rewrite
    assert (rule.source_topic, rule.dest_topic) == ("a/#", "c/$1")
    assert str(layers.origin(("rewrite", "1", "dest_topic"))) == f"cluster: {site.cluster}:1"
    site.file.write_text("rewrite = []")
    assert config_of(site.sources().read()).rewrite == ()


def test_the_layer_of_the_cluster_cannot_say_where_it_is(site: Site) -> None:
    site.cluster.write_text("mqtt.max_inflight = 2\nnode.data_dir = elsewhere")
    with pytest.raises(ConfigError) as refused:
        site.sources().read()
    assert str(refused.value).startswith(f"{site.cluster}:2: node.data_dir cannot be set here")


def test_conf_knows_the_layers_without_a_node(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    site.cluster.write_text("mqtt.max_inflight = 2\nmqtt.max_topic_levels = no")
    site.file.write_text("mqtt.max_qos_allowed = 1")
    place = [str(site.file), "--data-dir", str(site.data_dir)]
    assert main(["conf", "show", *place]) == 0
    assert json.loads(capsys.readouterr().out)["mqtt"]["max_inflight"] == 2
    assert main(["conf", "show", "--origins", *place]) == 0
    assert f"mqtt.max_inflight = 2  # cluster: {site.cluster}:1\n" in capsys.readouterr().out
    assert main(["conf", "check", *place]) == 1
    assert f"{site.cluster}:2: mqtt.max_topic_levels: found" in capsys.readouterr().err


SECRETS = """
listeners.ssl.default.ssl_options.password = s1
durable_storage.flight.tokens = [{ name = a, token = s2 }, { name = b, token = "file:///run/token" }]
schema_registry.external.e { type = confluent, url = "http://user:s3@host", auth.password = { x = [s4] } }
mqtt.password = { y = s5 }
mqtt.max_inflight = 5
durable_storage.flight.require_token = false
zones.z.authorization { no_match = deny, sources = [{ type = http, headers { authorization = s6 } }] }
"""


def test_secrets_are_stars_whatever_they_look_like() -> None:
    plain = json.dumps(to_plain(masked(parse_text(SECRETS), Config)))
    assert not [f"s{n}" for n in range(1, 7) if f"s{n}" in plain]
    assert "file:///run/token" in plain  # the file of a secret is none
    assert '"require_token": false' in plain
    assert '"no_match": "deny"' in plain  # only a header by the name of its group is a secret


def test_stars_sent_back_keep_the_secret() -> None:
    own = parse_text(SECRETS)
    sent = parse_text(
        'durable_storage.flight.tokens = [{ name = b, token = "******" }, { name = a, token = "******" }]\n'
        'listeners.ssl.default.ssl_options.password = "******"\n'
        'schema_registry.external.e.url = "http://******@host"\nmqtt.max_inflight = 7'
    )
    kept = kept_secrets(sent, own, own)
    assert to_plain(kept) == to_plain(
        parse_text(
            'durable_storage.flight.tokens = [{ name = b, token = "file:///run/token" }, { name = a, token = s2 }]\n'
            "listeners.ssl.default.ssl_options.password = s1\n"
            'schema_registry.external.e.url = "http://user:s3@host"\nmqtt.max_inflight = 7'
        )
    )
    # What another layer has stays there, but a list is one value.
    kept = kept_secrets(sent, parse_text("{}"), own)
    assert to_plain(kept) == to_plain(
        parse_text(
            'durable_storage.flight.tokens = [{ name = b, token = "file:///run/token" }, { name = a, token = s2 }]\n'
            "listeners.ssl.default.ssl_options = {}\nschema_registry.external.e = {}\nmqtt.max_inflight = 7"
        )
    )
    with pytest.raises(NoSecretError, match="none is set"):
        kept_secrets(sent, parse_text("{}"), parse_text("{}"))
