"""The documentation says what the code does: its function tables and its examples."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from heliograph.cli.main import main
from heliograph.rules.functions import FUNCTIONS
from heliograph.rules.reference import function_reference
from support.cases import cases

BEGIN, END = "<!-- functions: begin -->", "<!-- functions: end -->"
PAGE = Path(__file__).parents[2] / "docs" / "rules.md"


def test_page_holds_the_reference_of_the_code() -> None:
    page = PAGE.read_text(encoding="utf-8")
    held = page.partition(BEGIN)[2].partition(END)[0]
    assert held.strip() == function_reference(), "put what `heliograph rule functions` prints between the two comments"


def test_every_function_has_a_sentence() -> None:
    assert all(re.fullmatch(r"[^|]+[.]", function.summary) for function in FUNCTIONS.values())
    assert function_reference().count("\n| `") == len(FUNCTIONS)


def examples() -> list[tuple[str, str]]:
    page = PAGE.read_text(encoding="utf-8")
    return [split_example(block) for block in re.findall(r"```console\n\$ (.*?)```", page, flags=re.DOTALL)]


def split_example(block: str) -> tuple[str, str]:
    """The command, which goes on where a line ends with a backslash, and what it prints."""
    lines = block.splitlines(keepends=True)
    last = next(at for at, line in enumerate(lines) if not line.endswith("\\\n"))
    return "".join(lines[: last + 1]), "".join(lines[last + 1 :])


@cases(("command", "printed"), examples())
def test_examples_print_what_the_page_shows(command: str, printed: str, capsys: pytest.CaptureFixture[str]) -> None:
    name, *arguments = shlex.split(command.replace("\\\n", " "))
    assert name == "heliograph"
    assert main(arguments) == 0
    assert capsys.readouterr().out == printed


@pytest.mark.slow
def test_rules_need_no_pyspark_before_a_plan_is_carried_out() -> None:
    program = (
        "import sys, heliograph.rules, heliograph.cli.rule; from heliograph.rules.spark import explain;"
        "explain('SELECT topic FROM t'); sys.exit('pyspark' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
