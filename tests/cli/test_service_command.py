"""`heliograph service`, and what a node tells the service manager that has started it."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from heliograph.cli.main import main
from support.cases import cases
from support.process import NodeProcess

_ME = pwd.getpwuid(os.getuid()).pw_name


def verified(unit: Path, *options: str) -> str:
    """What `systemd-analyze verify` complains of."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    done = subprocess.run(
        ["systemd-analyze", *options, "verify", str(unit)], capture_output=True, text=True, check=False
    )
    return "\n".join(line for line in (done.stdout + done.stderr).splitlines() if unit.name in line)


@cases("options", [["--system", "--run-as", _ME], ["--user"]])
def test_systemd_accepts_the_unit(tmp_path: Path, options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "a file.conf"
    config.write_text("")
    words = ["service", "install", *options, "--print", "--config", str(config), "--data-dir", str(tmp_path / "100%")]
    assert main(words) == 0
    text = capsys.readouterr().out
    unit = tmp_path / "heliograph.service"
    unit.write_text(text)
    assert verified(unit, *(["--user"] if options == ["--user"] else [])) == ""
    (start,) = [line for line in text.splitlines() if line.startswith("ExecStart=")]
    assert f'--config "{config}"' in start
    assert f"--data-dir {tmp_path}/100%%" in start
    assert "Type=notify\n" in text
    if options != ["--user"]:
        assert "ProtectSystem=strict" in text
        assert f"ReadWritePaths={tmp_path}/100%%" in text
        assert f"User={_ME}" in text


def test_the_data_directory_is_that_of_the_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "n1.conf"
    config.write_text(f'node.data_dir = "{tmp_path}/store"')
    words = ["service", "install", "--run-as", _ME, "--print", "--config", str(config)]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert f"ReadWritePaths={tmp_path}/store\n" in text
    assert "--data-dir" not in text
    assert main([*words, "--data-dir", "/srv/other"]) == 0
    assert "--data-dir /srv/other\n" in capsys.readouterr().out
    for mistake, fault in (
        ('node.data_dir = "store"', "an absolute path is expected"),
        ("nothing = 1", "nothing"),
    ):
        config.write_text(mistake)
        assert main(words) == 2
        assert fault in capsys.readouterr().err


def test_a_user_installs_and_removes_a_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    unit, data_dir = tmp_path / "systemd" / "user" / "heliograph.service", tmp_path / "data"
    assert main(["service", "install", "--user", "--data-dir", str(data_dir)]) == 0
    assert "systemctl --user enable --now heliograph" in capsys.readouterr().out
    assert unit.exists()
    assert data_dir.stat().st_mode & 0o777 == 0o700
    assert main(["service", "uninstall", "--user"]) == 0
    assert not unit.exists()
    assert data_dir.exists()
    assert main(["service", "uninstall", "--user"]) == 2
    assert "nothing is installed" in capsys.readouterr().err


@cases(
    ("options", "told"),
    [
        (["--run-as", "nobody-of-that-name"], "useradd --system"),
        (["--config", "/dev/null/none.conf"], "the configuration file /dev/null/none.conf is not there"),
        (["--user", "--run-as", "x"], "--run-as has no meaning with --user"),
        (["--user", "--name", "a/b", "--data-dir", "/dev/null/x"], "/dev/null"),
    ],
)
def test_what_is_wrong_is_told(options: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["service", "install", *options]) in (1, 2)
    assert told in capsys.readouterr().err


@pytest.mark.service
def test_a_node_tells_its_service_manager_how_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "notify.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(path))
        manager.settimeout(60)
        monkeypatch.setenv("NOTIFY_SOCKET", str(path))
        with NodeProcess(tmp_path, "durable_storage { messages.topics = [], flight.enable = false }") as node:
            assert manager.recv(1000).decode() == f"READY=1\nSTATUS={node.ready_line}"
            os.kill(node.pid, signal.SIGHUP)
            assert manager.recv(1000).startswith(b"RELOADING=1\nMONOTONIC_USEC=")
            assert manager.recv(1000).startswith(b"READY=1\n")
            assert node.stop() == 0
            assert manager.recv(1000).startswith(b"STOPPING=1\n")
