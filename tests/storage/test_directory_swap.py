"""Putting a directory in the place of another: killed at any point, one of the two is there, whole."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from heliograph.storage import directory_swap
from heliograph.storage.directory_swap import swap_in
from support.cases import cases


def made(path: Path, text: str) -> Path:
    """A directory with one file."""
    path.mkdir(parents=True)
    (path / "file").write_text(text)
    return path


def killed_at(step: int, new: Path, path: Path, kept: Path) -> bool:
    """Swap in a child that dies before its step-th change of names; whether it came so far."""
    child = os.fork()
    if child == 0:
        left = [step]

        def counted(change: Callable[[Path, Path], None]) -> Callable[[Path, Path], None]:
            def wrapper(one: Path, other: Path) -> None:
                if not left[0]:
                    os._exit(9)
                left[0] -= 1
                change(one, other)

            return wrapper

        directory_swap.os.rename = counted(os.rename)  # type: ignore[attr-defined]  # in a child process, which dies
        directory_swap.exchange = counted(directory_swap.exchange)  # type: ignore[assignment]  # in a child process, which dies
        swap_in(new, path, kept)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


@cases("step", [0, 1, 2])
def test_after_a_crash_at_any_point_the_place_has_a_whole_directory(tmp_path: Path, step: int) -> None:
    path, new = made(tmp_path / "messages", "old"), made(tmp_path / ".repair" / "messages", "new")
    kept = tmp_path / ".damaged" / "messages"
    kept.parent.mkdir()
    was_killed = killed_at(step, new, path, kept)
    assert was_killed == (step < 2)
    assert (path / "file").read_text() == ("old" if was_killed else "new")
    if not was_killed:
        assert (kept / "file").read_text() == "old"
        return
    swap_in(new if new.exists() else made(tmp_path / "again", "new"), path, kept.with_name("messages-2"))
    assert (path / "file").read_text() == "new"


def test_where_names_cannot_be_exchanged_they_are_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class NoExchange:
        def renameat2(self, *_: object) -> int:
            return -1

    monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: NoExchange())
    monkeypatch.setattr("ctypes.get_errno", lambda: errno.EINVAL)
    path, new = made(tmp_path / "messages", "old"), made(tmp_path / "new", "new")
    swap_in(new, path, tmp_path / "kept")
    assert [(path / "file").read_text(), (tmp_path / "kept" / "file").read_text()] == ["new", "old"]
