"""Configurations as people run them: what becomes of each line, and that a node starts with what is made of them."""

import re
import shutil
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path

import pytest

from heliograph.cli.main import main
from support.cases import cases
from support.certificates import Authority
from support.running import RunningNode

CONFIGS = Path(__file__).parent / "configs"
NAMES = sorted(folder.name for folder in CONFIGS.iterdir())
FILES = {"emqx_full": ["emqx.conf", "configs/cluster.hocon"], "emqx_default": ["emqx.conf"]}
LOSING = ("psk",)
# No socket of a test is open to others, and several run at the same time.
BIND = re.compile(r'bind = "[0-9.\[\]:]+:[0-9]+"')


@contextmanager
def copied(name: str, tmp_path: Path) -> Iterator[Path]:
    """A copy of a configuration with certificates, as the working directory."""
    folder = tmp_path / name
    shutil.copytree(CONFIGS / name, folder)
    authority = Authority(folder)
    server = authority.server()
    for file in ("server.crt", "server.key"):
        shutil.copy(server, folder / file)
    authority.revoke().rename(folder / "crl.pem")
    with chdir(folder):
        yield folder


def imported(name: str, *options: str) -> int:
    """The exit code of an import."""
    losing = ["--lose-logins"] if name in LOSING else []
    return main(["conf", "import", *FILES.get(name, ["mosquitto.conf"]), *losing, *options])


@cases("name", NAMES)
def test_each_line_has_its_outcome(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with copied(name, tmp_path) as folder:
        assert imported(name, "--output", "out") == 0, capsys.readouterr().err
        report = (folder / "out" / "report.txt").read_text().replace(str(folder), "DIR")
    assert report.splitlines() == (CONFIGS / name / "report.txt").read_text().splitlines()


@cases("name", NAMES)
async def test_a_node_starts_with_what_is_made(name: str, tmp_path: Path) -> None:
    with copied(name, tmp_path) as folder:
        assert imported(name, "--output", "out") == 0
        assert main(["conf", "check", "out/heliograph.conf", "--data-dir", str(tmp_path / "none")]) == 0
        text = (folder / "out" / "heliograph.conf").read_text()
        text = BIND.sub('bind = "127.0.0.1:0"', text).replace("unix:/run/mosquitto/", f"unix:{folder}/")
        async with RunningNode(folder, text, "management.enable = false") as running:
            assert running.listeners.listeners
