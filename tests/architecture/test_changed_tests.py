"""The run without compiled modules has the tests of what has changed, and all where that is not known."""

import os
import subprocess
from pathlib import Path
from typing import Final

import pytest
from scripts import changed_tests

ROOT: Final = Path(__file__).parents[2]
EVERY: Final = sorted(changed_tests.PACKAGES)


def git(folder: Path, *arguments: str, at: int = 0) -> str:
    made = f"{1_700_000_000 + at} +0000"
    environment = {
        **os.environ,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_AUTHOR_DATE": made,
        "GIT_COMMITTER_DATE": made,
    }
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, text=True).stdout


def commit(folder: Path, file: str, at: int) -> None:
    path = folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{at}\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", file, at=at)


@pytest.mark.parametrize(
    ("changed", "folders"),
    [
        ([], []),
        (["docs/a.md", "src/heliograph/management/a.py", "tests/broken.py"], []),
        (["tests/mqtt/test_decode.py"], ["mqtt"]),
        (["bench/src/heliograph_bench/clients.py"], ["bench"]),
        (["src/heliograph/broker/trie.py"], ["broker", "conformance", "durable", "fuzz"]),
        (["setup.py"], EVERY),
        (None, EVERY),
    ],
)
def test_a_change_has_the_folders_of_its_packages(changed: list[str] | None, folders: list[str]) -> None:
    assert changed_tests.folders(changed) == folders


def test_the_folders_are_there() -> None:
    assert [folder for folder in EVERY if not (ROOT / "tests" / folder).is_dir()] == []


def test_a_clone_of_the_branch_has_the_changes_of_the_last_hours(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    assert changed_tests.base_of(tmp_path) is None
    commit(tmp_path, "a", at=0)
    assert changed_tests.base_of(tmp_path) is None
    commit(tmp_path, "b", at=50_000)
    commit(tmp_path, "c", at=50_100)
    (tmp_path / "d").write_text("")
    assert changed_tests.changed_since(changed_tests.base_of(tmp_path), tmp_path) == ["b", "c", "d"]


def test_a_branch_has_its_own_changes(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    commit(tmp_path, "a", at=0)
    git(tmp_path, "update-ref", "refs/remotes/origin/main", "HEAD")
    commit(tmp_path, "b", at=1)
    assert changed_tests.changed_since(changed_tests.base_of(tmp_path), tmp_path) == ["b"]


def test_without_git_nothing_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert changed_tests.changed_since("0123", tmp_path) is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert changed_tests.base_of(tmp_path) is None
