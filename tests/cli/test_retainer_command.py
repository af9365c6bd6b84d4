"""`heliograph retainer` as its user sees it."""

import fcntl
import json
from pathlib import Path

import pytest

from heliograph.cli.main import main
from heliograph.storage.interface import StoredMessage
from heliograph.storage.keyed.table import KeyedTable, keyed_path
from support.cases import cases

AT = 1_700_000_000_000_000


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """A data directory with retained messages of fifty devices, and one that expires."""
    table = KeyedTable("retained", keyed_path(tmp_path) / "retained")
    table.open()
    topics = [f"d/{number:02d}/{word}" for number in range(50) for word in ("state", "temp")]
    messages = [StoredMessage(AT, n, topic, b"abc", 1, True, "c", None, b"", 0) for n, topic in enumerate(topics)]
    changes = [table.put(message) for message in messages]
    changes.append(table.put(StoredMessage(AT, 7, "x", b"", 0, True, "pub", None, b"", 0), AT + 60_000_000, 60))
    table.commit(changes)
    table.close()
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["retainer", *words]) == 0
    return capsys.readouterr().out


def test_info(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "info", "--data-dir", str(data_dir)).startswith("101 messages, ")
    assert json.loads(run(capsys, "info", "--json", "--data-dir", str(data_dir)))["messages"] == 101


def test_ls(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "ls", "d/07/+", "--data-dir", str(data_dir)) == (
        "d/07/state  3 bytes, QoS 1, from 'c' at 2023-11-14T22:13:20Z\n"
        "d/07/temp  3 bytes, QoS 1, from 'c' at 2023-11-14T22:13:20Z\n"
    )
    (line,) = run(capsys, "ls", "x", "--json", "--data-dir", str(data_dir)).splitlines()
    assert json.loads(line)["expires_at"] == "2023-11-14T22:14:20Z"
    assert len(run(capsys, "ls", "--limit", "0", "--data-dir", str(data_dir)).splitlines()) == 101


def test_ls_says_that_there_are_more(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["retainer", "ls", "--limit", "3", "--data-dir", str(data_dir)]) == 0
    output = capsys.readouterr()
    assert len(output.out.splitlines()) == 3
    assert "there are more than 3" in output.err


def test_delete(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = ("--data-dir", str(data_dir))
    assert run(capsys, "delete", "d/+/state", "--dry-run", *directory) == "50 messages would be deleted\n"
    assert run(capsys, "delete", "d/+/state", *directory) == "50 messages were deleted\n"
    assert run(capsys, "delete", "d/+/state", *directory) == "0 messages were deleted\n"
    assert len(run(capsys, "ls", "d/#", *directory).splitlines()) == 50


@cases(
    ("words", "said"),
    [(("ls", "a/#/b"), "'#'"), (("delete", "d/+"), "a running node uses it")],
)
def test_what_cannot_be_done_is_said(
    data_dir: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    with (data_dir / "node.lock").open("a") as lock:
        if "running" in said:
            fcntl.flock(lock, fcntl.LOCK_EX)
        assert main(["retainer", *words, "--data-dir", str(data_dir)]) == 1
    assert said in capsys.readouterr().err


def test_where_nothing_is_retained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["retainer", "info", "--data-dir", str(tmp_path)]) == 1
    assert "no message is retained on the disk there" in capsys.readouterr().err
