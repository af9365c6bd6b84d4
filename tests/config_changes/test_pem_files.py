"""Texts of certificates and keys in a change: the files that they become, and how long these stay."""

from pathlib import Path

import pytest

from heliograph.config.loading import load_config
from heliograph.config.settings import Config
from heliograph.config_changes import pem_files
from heliograph.config_changes.pem_files import PemFiles
from heliograph.hocon.document import parse_text
from heliograph.hocon.writing import to_hocon
from heliograph.settings.errors import ConfigError
from heliograph.settings.fields import Section

KEY = "-----BEGIN PRIVATE KEY-----\nMHcCAQEEIhunter2\n-----END PRIVATE KEY-----\n"


def test_a_text_is_a_file_until_nothing_names_it(tmp_path: Path) -> None:
    now_s = 1_000_000.0
    files = PemFiles(tmp_path, lambda: now_s)
    text = f'listeners.ssl.a.ssl_options {{ keyfile = """{KEY}""", sni = [{{ keyfile = """{KEY}""" }}] }}'
    text += f'\nalarm.webhook.url = "http://h", mqtt.description = """{KEY}"""'
    shown = to_hocon(files.stored(parse_text(text), Section(Config)))
    (file,) = (tmp_path / "certs").iterdir()
    assert (file.read_text(), shown.count(str(file))) == (KEY, 2)
    assert shown.count("hunter2") == 1  # only a setting that is a file has one
    files.remove_unused(list)
    assert file.exists()  # it was made just now
    now_s += 3600
    files.remove_unused(lambda: ["nothing", shown])
    assert file.exists()
    (tmp_path / "certs" / "mine.pem").touch()
    files.remove_unused(list)
    assert [one.name for one in (tmp_path / "certs").iterdir()] == ["mine.pem"]


def test_texts_of_refused_changes_do_not_fill_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pem_files, "BYTES_MAX", 2 * len(KEY) + 4)
    files = PemFiles(tmp_path, lambda: 1_000_000.0)

    def store(number: int) -> None:
        key = KEY.replace("MHc", f"MH{number}")
        files.stored(parse_text(f'listeners.ssl.a.ssl_options.keyfile = """{key}"""'), Section(Config))

    store(1)
    store(2)
    store(1)  # it is there
    with pytest.raises(OSError, match="certificates and keys of changes have more than"):
        store(3)
    assert len(list((tmp_path / "certs").iterdir())) == 2


def test_a_file_of_the_configuration_names_files(tmp_path: Path) -> None:
    file = tmp_path / "heliograph.hocon"
    file.write_text(f'alarm.webhook {{ url = "http://h", ssl.keyfile = """{KEY}""" }}')
    with pytest.raises(ConfigError, match="found a text in PEM, expected a file: a file names a file") as refused:
        load_config(file)
    assert "MHc" not in str(refused.value)
