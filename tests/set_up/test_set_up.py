"""Setting a checkout up: what bad luck gets, and that the next run goes on. A stand-in for uv says what uv says."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from support.waiting import wait_until

ROOT: Final = Path(__file__).parents[2]
WORKS: Final = "exit 0"
NO_NETWORK: Final = """echo 'error: Failed to fetch: `https://index.test/simple/lark/`' >&2; exit 2"""
FULL: Final = "echo 'error: Failed to install: lark.whl: No space left on device (os error 28)' >&2; exit 2"


class Checkout:
    """A checkout with a virtual environment, nothing to compile, and a uv that does what a test says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.calls = folder / "calls"
        self.packages = folder / ".venv/lib/python3.11/site-packages"
        for name in ("scripts/set_up.py", "scripts/compiling/__init__.py", "scripts/compiling/sources.py"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
        for name in ("pyproject.toml", "constraints.txt", "setup.py"):
            (folder / name).write_text("")
        for path in (folder / "bench", folder / "bin", folder / ".venv/bin", self.packages):
            path.mkdir(parents=True)
        (folder / ".venv/bin/python").symlink_to(Path(sys.executable).resolve())
        self._program(folder / ".venv/bin/heliograph", "echo heliograph 1.0")

    def uv(self, what: str) -> None:
        """Have uv do something."""
        self._program(self.folder / "bin/uv", f'echo "$@" >> "{self.calls}"; {what}')

    def start(self, target: str = "test", **environment: str) -> "subprocess.Popen[str]":
        """Start to set it up."""
        return subprocess.Popen(
            [sys.executable, "-m", "scripts.set_up", target],
            cwd=self.folder,
            env={
                **os.environ,
                "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
                "HELIOGRAPH_PURE": "1",
                "PIP_NO_INDEX": "1",  # pip is the real one, and gets nothing
                "PIP_FIND_LINKS": "",
                **environment,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def set_up(self, **environment: str) -> tuple[int, str]:
        """Set it up: the exit code and what is printed."""
        process = self.start(**environment)
        text, _ = process.communicate()
        return process.returncode, text

    def call_count(self) -> int:
        """How often uv was called."""
        return len(self.calls.read_text().splitlines()) if self.calls.exists() else 0

    @staticmethod
    def _program(path: Path, text: str) -> None:
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_what_is_there_is_not_installed_again(checkout: Checkout) -> None:
    checkout.uv(WORKS)
    code, text = checkout.set_up()
    assert code == 0
    assert "heliograph 1.0 is ready" in text
    count = checkout.call_count()
    assert checkout.set_up() == (0, "")
    assert checkout.call_count() == count
    (checkout.folder / "constraints.txt").write_text("lark==2")
    assert checkout.set_up()[0] == 0
    assert checkout.call_count() > count


def test_each_target_installs_what_it_needs(checkout: Checkout) -> None:
    checkout.uv(WORKS)
    for target in ("broker", "test"):
        checkout.start(target).communicate()
    broker, test = [line for line in checkout.calls.read_text().splitlines() if " -e " in line]
    assert broker.endswith("-e . -e ./bench")
    assert test.split("-e .")[1].startswith("[test")


def test_what_uv_has_in_its_cache_needs_no_network(checkout: Checkout) -> None:
    checkout.uv('case "$*" in *--offline*) exit 0;; *) exit 2;; esac')
    assert checkout.set_up()[0] == 0
    checkout.uv('case "$*" in *--offline*) exit 2;; *) exit 0;; esac')
    (checkout.folder / "constraints.txt").write_text("lark==2")
    assert checkout.set_up()[0] == 0


def test_a_package_that_cannot_be_had_is_named_and_the_next_run_goes_on(checkout: Checkout) -> None:
    checkout.uv(NO_NETWORK)
    code, text = checkout.set_up()
    assert code == 1
    assert "set-up: cannot get the package " in text
    assert ": look at the connection to your package index and run make again, which goes on from here" in text
    checkout.uv(WORKS)
    assert checkout.set_up()[0] == 0


def test_a_full_disk_is_named(checkout: Checkout) -> None:
    checkout.uv(FULL)
    code, text = checkout.set_up()
    assert code == 1
    assert f"set-up: the disk of {checkout.folder} is full: free some space and run make again" in text


def test_an_interrupt_ends_all_that_was_started_and_the_next_run_goes_on(checkout: Checkout) -> None:
    pid = checkout.folder / "pid"
    checkout.uv(f'sleep 1000 & echo $! > "{pid}.new"; mv "{pid}.new" "{pid}"; wait')
    process = checkout.start()
    wait_until(pid.exists, "uv runs")
    process.send_signal(signal.SIGINT)
    text, _ = process.communicate()
    assert process.returncode == 130
    assert "set-up: interrupted; the next make goes on from here" in text
    wait_until(lambda: not _runs(int(pid.read_text())), "what uv has started ends")
    checkout.uv(WORKS)
    assert checkout.set_up()[0] == 0


def test_a_package_that_an_interrupt_left_incomplete_is_installed_again(checkout: Checkout) -> None:
    for name in ("whole", "damaged"):
        (checkout.packages / f"{name}-1.dist-info").mkdir()
        (checkout.packages / f"{name}-1.dist-info/RECORD").write_text(f"{name}.py,sha256=0,0\n")
    (checkout.packages / "whole.py").touch()
    (checkout.folder / ".venv/set-up").mkdir()
    (checkout.folder / ".venv/set-up/unfinished").touch()
    checkout.uv(WORKS)
    assert checkout.set_up()[0] == 0
    assert [path.name for path in checkout.packages.glob("*.dist-info")] == ["whole-1.dist-info"]


def test_a_second_make_waits_for_the_first(checkout: Checkout) -> None:
    gate = checkout.folder / "gate"
    os.mkfifo(gate)
    checkout.uv(f'read line < "{gate}"')
    first = checkout.start()
    wait_until(checkout.calls.exists, "uv runs")
    second = checkout.start()
    assert second.stdout is not None
    assert "another make sets up this checkout; waiting" in second.stdout.readline()
    checkout.uv(WORKS)
    gate.write_text("go\n")
    first.communicate()
    second.communicate()
    assert (first.returncode, second.returncode) == (0, 0)


def test_a_home_that_cannot_be_written_needs_no_attention(checkout: Checkout) -> None:
    file = checkout.folder / "home"  # as root every directory can be written, below a file none can be made
    file.touch()
    checkout.uv('test -n "$UV_CACHE_DIR"')
    assert checkout.set_up(HOME=str(file), XDG_CACHE_HOME=str(file / "cache"))[0] == 0


def test_a_python_that_is_too_old_is_named() -> None:
    program = f"import sys; sys.version_info = (3, 9, 1); exec(open({str(ROOT / 'scripts/check_python.py')!r}).read())"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert answer.returncode == 1
    assert answer.stderr.startswith("Heliograph needs Python 3.11 or newer; ")


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
