"""Files of EMQX and mosquitto: which forms are taken, and what is said of those that are not."""

from pathlib import Path

import pytest

from heliograph.config.loading import load_config
from heliograph.settings.errors import ConfigError, ConfigSyntaxError
from support.cases import cases


@cases(
    "text",
    [
        'log.file.default { enable = true, path = "/l", rotation_count = 3 }',
        'log.file { default { path = "/l", rotation_count = 3 }, enable = true }',
        'log { file { enable = true, path = "/l", rotation_count = 3 } }',
    ],
)
def test_the_log_file_of_emqx_is_the_log_file(tmp_path: Path, text: str) -> None:
    file = tmp_path / "emqx.conf"
    file.write_text(text)
    config = load_config(file).log.file
    assert (config.enable, config.path, config.rotation_count) == (True, "/l", 3)


def test_its_variable_is_taken_too(caplog: pytest.LogCaptureFixture) -> None:
    assert load_config(environ={"HELIOGRAPH_LOG__FILE__DEFAULT__PATH": "/l"}).log.file.path == "/l"
    assert caplog.text == ""


@cases(
    ("text", "place", "advice"),
    [
        ("gateway.stomp { enable = true }", "gateway", "gateways of other protocols are not there: delete it"),
        ("limiter.tcp { }", "limiter", "max_conn_rate, messages_rate and bytes_rate of a listener"),
        ("cluster.name = x", "cluster", "a node is alone here: delete it"),
        ("telemetry.enable = false", "telemetry", "nothing is reported here: delete it"),
        ("sysmon.vm.long_gc = disabled", "sysmon.vm.long_gc", "nothing like it here: delete it"),
        ('node.cookie = "x"', "node.cookie", "nothing like it here: delete it"),
        ("mqtt.max_inflght = 3", "mqtt.max_inflght", "did you mean max_inflight?"),
    ],
)
def test_what_only_emqx_knows_has_advice(tmp_path: Path, text: str, place: str, advice: str) -> None:
    file = tmp_path / "emqx.conf"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(file)
    (problem,) = caught.value.problems
    assert (problem.path, problem.line) == (place, 1)
    assert problem.message.startswith("unknown key; ")
    assert advice in problem.message


def test_a_file_of_mosquitto_is_known(tmp_path: Path) -> None:
    file = tmp_path / "mosquitto.conf"
    file.write_text("# a broker\nlistener 1883\nallow_anonymous false\npassword_file /etc/mosquitto/passwd\n")
    with pytest.raises(
        ConfigSyntaxError, match=r"this is a mosquitto\.conf: heliograph conf import makes a configuration of it"
    ):
        load_config(file)
