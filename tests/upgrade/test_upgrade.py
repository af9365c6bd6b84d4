"""A node of this release goes on with the data directory, and with a backup, of each earlier one."""

import shutil
import tarfile
from pathlib import Path

import pytest

from heliograph import __version__
from heliograph.cli.main import main
from support.process import NodeProcess
from support.waiting import wait_until
from upgrade.generate import BACKEND, OFFLOADING, TOPICS, connected, end

RELEASES = sorted(Path(__file__).parent.glob("*.tar.xz"))
pytestmark = pytest.mark.service


@pytest.mark.parametrize("is_restored", [False, True])
@pytest.mark.parametrize("archive", RELEASES, ids=lambda path: path.name.removesuffix(".tar.xz"))
def test_a_node_goes_on_with_the_data_of_an_earlier_release(
    archive: Path, is_restored: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with tarfile.open(archive) as opened:
        opened.extractall(tmp_path, filter="data")
    if is_restored:
        shutil.rmtree(tmp_path / "data")
        assert main(["backup", "restore", str(tmp_path / "place"), "--data-dir", str(tmp_path / "data")]) == 0
    got: list[str] = []
    with NodeProcess(tmp_path, OFFLOADING) as node:
        place = ("--data-dir", str(node.data_dir), "--json")
        backend = connected(node, BACKEND)
        backend.on_message = lambda client, data, message: got.append(message.topic)
        wait_until(lambda: len(got) >= len(TOPICS), "the session gets what it has missed")
        end(backend)
        assert got == TOPICS
        assert main(["ctl", "conf", "show", "mqtt.max_inflight", *place[:2]]) == 0
        assert "7" in capsys.readouterr().out
        assert main(["retainer", "ls", "plant/#", *place]) == 0
        assert capsys.readouterr().out.count("plant/") == len(TOPICS)
        node.stop()
    for database in ("messages", "sessions", "retained", "delayed"):
        assert main(["storage", "check", database, *place]) == 0, database
    capsys.readouterr()


def test_there_is_a_directory_of_this_release() -> None:
    assert f"{__version__}.tar.xz" in {path.name for path in RELEASES}
    assert all(path.stat().st_size < 100_000 for path in RELEASES)
