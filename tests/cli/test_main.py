"""The command itself: its version, and what it says to words that it does not know."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import heliograph
from heliograph.cli.main import main

ROOMS = Path(heliograph.__file__).parent / "mqtt"
COMMANDS = ("start", "conf", "storage", "rule", "pipeline", "bench")


def version_of(environment: dict[str, str]) -> str:
    command = [sys.executable, "-m", "heliograph.cli.main", "--version"]
    environ = {name: value for name, value in os.environ.items() if name != "HELIOGRAPH_PURE"} | environment
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout


def test_the_version_says_whether_the_protocol_rooms_are_compiled() -> None:
    is_built = (ROOMS / f"decode{sysconfig.get_config_var('EXT_SUFFIX')}").exists()
    assert version_of({}) == f"heliograph 0.1.0 ({'compiled' if is_built else 'pure Python'})\n"


def test_compiled_rooms_are_left_aside_when_asked() -> None:
    assert version_of({"HELIOGRAPH_PURE": "1"}) == "heliograph 0.1.0 (pure Python)\n"


def test_an_unknown_command_is_answered_with_those_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["strat"])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert all(f"'{command}'" in said for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: heliograph {command}")
