"""Layers: defaults, file, environment, command line."""

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from config.writing import Write, config_of, mistakes_in
from heliograph.config.listeners import TcpListener, TcpOptions
from heliograph.config.loading import environment_name, load_config
from heliograph.config.settings import Config
from heliograph.settings.errors import ConfigError
from heliograph.settings.units import Address
from support.cases import cases


def test_without_a_file_every_setting_has_its_default() -> None:
    config = load_config()
    assert config == Config()
    assert config.listeners.tcp == {"default": TcpListener()}
    assert config.listeners.tcp["default"].bind == Address("127.0.0.1", 1883)
    assert config.node.data_dir == "data"
    assert config.mqtt.max_packet_size == 1048576
    assert config.mqtt.server_keepalive is None
    assert config.mqtt.session_expiry_interval == 7200.0
    assert config.durable_storage.messages.topics == ("#",)
    assert config.durable_storage.messages.retention == 7 * 86400.0
    assert config.durable_storage.messages.layout.wildcard_thresholds == (100, 10)
    assert config.durable_storage.flight.bind == Address("127.0.0.1", 8815)


def test_an_empty_file_changes_nothing(write: Write) -> None:
    assert config_of(write("# nothing yet\n")) == Config()


def test_a_file_with_everything(write: Write) -> None:
    config = config_of(
        write(
            """
            node { name = "edge-1@10.0.0.5", data_dir = "/var/lib/heliograph" }
            listeners.tcp.default.bind = 1884
            listeners.tcp.inside { bind = "[::1]:1885", tcp_options.backlog = 16, max_connections = 500 }
            listeners.tcp.inside.enable = "false"
            mqtt {
              idle_timeout = infinity
              max_packet_size = 512KB
              max_mqueue_len = infinity
              server_keepalive = 60
              keepalive_multiplier = 2
              await_rel_timeout = 2500
              session_expiry_interval = 1h30m
            }
            retainer { backend.max_retained_messages = 0, msg_expiry_interval = 1d }
            durable_storage {
              messages { topics = ["weather/+/obs", "$SYS/#"], retention = infinity, fsync = false
                         layout { wildcard_thresholds = [50], compression = lz4 } }
              flight { enable = false, bind = "0.0.0.0:9000" }
            }
            log.console.level = debug
            """
        )
    )
    assert config.node.name == "edge-1@10.0.0.5"
    assert config.node.data_dir == "/var/lib/heliograph"
    assert config.listeners.tcp == {
        "default": TcpListener(bind=Address("0.0.0.0", 1884)),
        "inside": TcpListener(
            enable=False, bind=Address("::1", 1885), max_connections=500, tcp_options=TcpOptions(backlog=16)
        ),
    }
    assert config.mqtt.idle_timeout is None
    assert config.mqtt.max_packet_size == 512 * 1024
    assert config.mqtt.max_mqueue_len is None
    assert config.mqtt.server_keepalive == 60
    assert config.mqtt.keepalive_multiplier == 2.0
    assert config.mqtt.await_rel_timeout == 2.5
    assert config.mqtt.session_expiry_interval == 5400.0
    assert config.retainer.backend.max_retained_messages is None
    assert config.retainer.msg_expiry_interval == 86400.0
    assert config.durable_storage.messages.topics == ("weather/+/obs", "$SYS/#")
    assert config.durable_storage.messages.retention is None
    assert config.durable_storage.messages.layout.wildcard_thresholds == (50,)
    assert config.durable_storage.messages.layout.compression == "lz4"
    assert not config.durable_storage.flight.enable
    assert config.log.console.level == "debug"


@cases(
    ("text", "names"),
    [
        ("", {"default"}),
        ("listeners.tcp.other.bind = 1884", {"default", "other"}),
        ("listeners.tcp = null", {"default"}),
        ("listeners.tcp.default = null", {"default"}),
        ("listeners.tcp.2nd.bind = 1884", {"default", "2nd"}),
    ],
)
def test_the_default_listener_is_there_unless_it_is_switched_off(text: str, names: set[str], write: Write) -> None:
    assert set(config_of(write(text)).listeners.tcp) == names


def test_null_is_as_if_the_setting_were_not_there(write: Write) -> None:
    assert config_of(write("mqtt = null, log.console.level = null, durable_storage.messages.layout = null")) == Config()


def test_a_list_may_be_written_as_an_object_of_indexes(write: Write) -> None:
    path = write('durable_storage.messages.topics.2 = b, durable_storage.messages.topics.1 = "a/#"')
    assert config_of(path).durable_storage.messages.topics == ("a/#", "b")


def test_an_empty_list_of_topics_stores_nothing(write: Write) -> None:
    assert config_of(write("durable_storage.messages.topics = []")).durable_storage.messages.topics == ()


@cases(
    ("name", "text", "path", "value"),
    [
        ("HELIOGRAPH_MQTT__MAX_INFLIGHT", "64", "mqtt.max_inflight", 64),
        ("HELIOGRAPH_MQTT__MAX_INFLIGHT", '"64"', "mqtt.max_inflight", 64),
        ("HELIOGRAPH_NODE__DATA_DIR", "/var/lib/my data", "node.data_dir", "/var/lib/my data"),
        ("HELIOGRAPH_NODE__DATA_DIR", "2024", "node.data_dir", "2024"),
        ("HELIOGRAPH_MQTT__IDLE_TIMEOUT", "1m", "mqtt.idle_timeout", 60.0),
        ("HELIOGRAPH_MQTT__MAX_PACKET_SIZE", "2MB", "mqtt.max_packet_size", 2 << 20),
        ("HELIOGRAPH_RETAINER__ENABLE", "false", "retainer.enable", False),
        ("HELIOGRAPH_DURABLE_STORAGE__FLIGHT__BIND", "[::1]:0", "durable_storage.flight.bind", Address("::1", 0)),
        ("HELIOGRAPH_DURABLE_STORAGE__MESSAGES__TOPICS", "[]", "durable_storage.messages.topics", ()),
        ("HELIOGRAPH_DURABLE_STORAGE__MESSAGES__TOPICS__1", "a/b", "durable_storage.messages.topics", ("a/b",)),
    ],
)
def test_the_environment_overrides(name: str, text: str, path: str, value: object) -> None:
    found: object = load_config(environ={name: text})
    for part in path.split("."):
        found = getattr(found, part)
    assert found == value


def test_the_environment_overrides_the_file_and_the_command_line_both(write: Write) -> None:
    path = write("node.data_dir = file, mqtt.max_inflight = 5, listeners.tcp.default.tcp_options.backlog = 7")
    environ = {
        "HELIOGRAPH_NODE__DATA_DIR": "environment",
        "HELIOGRAPH_MQTT__MAX_INFLIGHT": "6",
        "HELIOGRAPH_LISTENERS__TCP__DEFAULT__BIND": "127.0.0.1:1884",
    }
    config = load_config(path, environ, {"node.data_dir": 'my "data" #1'})
    assert config.node.data_dir == 'my "data" #1'
    assert config.mqtt.max_inflight == 6
    assert config.listeners.tcp["default"] == TcpListener(
        bind=Address("127.0.0.1", 1884), tcp_options=TcpOptions(backlog=7)
    )


def test_unknown_variables_are_ignored_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    environ = {
        "HELIOGRAPH_PURE": "1",
        "HELIOGRAPH_OPT_LEVEL": "3",
        "HELIOGRAPH_MQTT__MAX_INFLIGHT__X": "1",
        "HELIOGRAPH_MQTT__NO_SUCH": "1",
        "HELIOGRAPH_RETAINER": "{enable = false, colour = blue}",
    }
    with caplog.at_level(logging.WARNING):
        config = load_config(environ=environ)
    assert not config.retainer.enable
    assert config.mqtt == Config().mqtt
    (record,) = caplog.records
    assert record.getMessage() == (
        "ignored environment variables that name no setting: HELIOGRAPH_MQTT__MAX_INFLIGHT__X, "
        "HELIOGRAPH_MQTT__NO_SUCH, HELIOGRAPH_RETAINER (retainer.colour)"
    )


def test_the_variable_of_a_setting_can_be_named() -> None:
    name = environment_name("listeners.tcp.default.bind")
    assert name == "HELIOGRAPH_LISTENERS__TCP__DEFAULT__BIND"
    assert load_config(environ={name: "9"}).listeners.tcp["default"].bind == Address("0.0.0.0", 9)


def test_includes_are_read(write: Write, tmp_path: Path) -> None:
    (tmp_path / "mqtt.conf").write_text("max_inflight = 70\nmax_clientid_len = ${max_inflight}")
    path = write("mqtt {include mqtt.conf}")
    assert config_of(path).mqtt.max_clientid_len == 70
    (tmp_path / "mqtt.conf").write_text("\nmax_inflight = 0")
    assert mistakes_in(path) == ["mqtt.conf:2: mqtt.max_inflight: found 0, expected an integer from 1 to 65535"]


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path / "no.conf", {})
    assert caught.value.file == str(tmp_path / "no.conf")
    assert caught.value.line is None
    assert caught.value.message == "there is no such file"


def test_without_a_file_the_grammar_library_is_not_loaded() -> None:
    code = "import sys, heliograph.config.loading as c; c.load_config(None, {}); print('lark' in sys.modules)"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed == "False\n"
