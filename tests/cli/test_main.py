"""The command itself: its version, and what it says to words that it does not know."""

import argparse
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import heliograph
from heliograph import __version__
from heliograph.cli.data_dir import run_in_data_dir
from heliograph.cli.main import main
from support.cases import cases

PACKAGE = Path(heliograph.__file__).parent / "mqtt"
COMMANDS = ("start", "conf", "storage", "rule", "pipeline", "bench")


def version_of(environment: dict[str, str]) -> str:
    command = [sys.executable, "-m", "heliograph.cli.main", "--version"]
    environ = {name: value for name, value in os.environ.items() if name != "HELIOGRAPH_PURE"} | environment
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout


def test_the_version_says_whether_the_protocol_packages_are_compiled() -> None:
    is_built = (PACKAGE / f"decode{sysconfig.get_config_var('EXT_SUFFIX')}").exists()
    assert version_of({}) == f"heliograph {__version__} ({'compiled' if is_built else 'pure Python'})\n"


def test_compiled_modules_are_left_aside_when_asked() -> None:
    assert version_of({"HELIOGRAPH_PURE": "1"}) == f"heliograph {__version__} (pure Python)\n"


def test_an_unknown_command_is_answered_with_those_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["strat"])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert all(f"'{command}'" in said for command in COMMANDS)


@cases("command", COMMANDS)
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: heliograph {command}")


def test_without_the_load_tool_its_command_says_how_to_get_it() -> None:
    program = (
        "import sys; sys.modules['heliograph_bench'] = None; from heliograph.cli.main import main; sys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "bench", "pub", "-q", "1"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "pip install heliograph-bench" in done.stderr


@cases(
    ("words", "usage", "told"),
    [
        (("ctl", "clients"), "heliograph ctl clients", "required: COMMAND (choose from 'list', 'show', 'kick')"),
        (("ctl", "status", "now"), "heliograph ctl status", "unrecognized arguments: now"),
        (("ctl", "--json", "vm", "io", "--all"), "heliograph ctl vm", "unrecognized arguments: --all"),
        (("--json", "ctl", "status"), "heliograph", "unrecognized arguments: --json status"),
    ],
)
def test_a_wrong_word_is_told_with_the_usage_of_its_command(
    words: tuple[str, ...], usage: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith(f"usage: {usage} [-h]")
    assert told in said


def test_an_output_that_cannot_be_written_is_told_without_a_traceback() -> None:
    command = [sys.executable, "-m", "heliograph.cli.main", "topic", "match", "a/#", "a/b"]
    with open("/dev/full", "wb") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    told = b"heliograph: the output cannot be written: No space left on device\n"
    assert (ended.returncode, ended.stderr) == (1, told)
    closed = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *command], stderr=subprocess.PIPE, check=False)
    assert (closed.returncode, closed.stderr) == (0, b"")


def test_a_reader_that_has_seen_enough_is_no_failure_to_tell_of() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "heliograph.cli.main", "topic", "match", "a/#", "a/b"]
    ended = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (1, b"")


def test_a_socket_that_breaks_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> int:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr("heliograph.cli.topic.run", broken)
    with pytest.raises(BrokenPipeError):
        main(["topic", "match", "a/#", "a/b"])
    arguments = argparse.Namespace(config=None, data_dir=str(tmp_path))
    assert run_in_data_dir(arguments, broken) == 1
    assert "Broken pipe" in capsys.readouterr().err
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as unread:
        monkeypatch.setattr(sys, "stdout", unread)
        with pytest.raises(BrokenPipeError):  # which `main` knows
            run_in_data_dir(arguments, broken)
