"""Secrets of a configuration: never printed, given as a text or as the file that holds it."""

from pathlib import Path

import pytest

from heliograph.cli.main import main
from heliograph.config.loading import load_config
from heliograph.settings.errors import ConfigError
from heliograph.settings.secrets import Secret, SecretError

SSL = 'listeners.ssl.default { bind = "127.0.0.1:0", ssl_options.password = "%s" }'


def password_of(directory: Path, value: str) -> Secret:
    file = directory / "node.conf"
    file.write_text(SSL % value)
    return (
        load_config(file, {}, {"node.data_dir": str(directory / "data")}).listeners.ssl["default"].ssl_options.password
    )


def test_a_secret_is_stars_wherever_it_is_printed(tmp_path: Path) -> None:
    secret = password_of(tmp_path, "hunter2")
    assert secret.reveal() == "hunter2"
    assert f"{secret} {secret!r}" == "****** ******"
    assert "hunter2" not in repr(load_config(tmp_path / "node.conf", {}, {"node.data_dir": str(tmp_path / "data")}))


def test_a_secret_may_be_in_a_file_which_is_read_when_it_is_used(tmp_path: Path) -> None:
    secret = password_of(tmp_path, f"file://{tmp_path}/key")
    with pytest.raises(SecretError, match="cannot be read"):
        secret.reveal()
    for content, text in ((" hunter2 \n", "hunter2"), ("other", "other")):
        (tmp_path / "key").write_text(content)
        assert secret.reveal() == text
    (tmp_path / "key").write_text("\n")
    with pytest.raises(SecretError, match="is empty"):
        secret.reveal()


def test_a_file_without_a_path_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"found a string, expected a text, or a file that holds it"):
        password_of(tmp_path, "file://")
    assert not password_of(tmp_path, "")


def test_the_path_of_a_file_is_shown_and_names_of_secrets_are_known_where_nothing_declares_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "node.conf"
    file.write_text(
        f'{SSL % "file:///run/key"}\nmqtt {{ access_key_id = hunter2, "x.secret.key" = hunter2, jwt = hunter2 }}'
    )
    assert main(["conf", "show", str(file)]) == 0
    shown = capsys.readouterr().out
    assert "hunter2" not in shown
    assert '"password": "file:///run/key"' in shown
