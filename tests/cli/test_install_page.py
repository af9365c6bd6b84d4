"""The commands on the page about installing are commands that there are."""

import shlex
from pathlib import Path

from heliograph.cli.main import whole_parser
from support.cases import cases

_ROOT = Path(__file__).parents[2]
_WHOLE = whole_parser()


def commands() -> list[str]:
    """Every line of a code block that calls heliograph, here or in a container."""
    found = []
    page = (_ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    for block in page.split("```sh\n")[1:]:
        for line in block.split("```")[0].replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if "heliograph" in words and not line.startswith(("systemctl", "useradd", "docker build")):
                found.append(shlex.join(words[words.index("heliograph") :]))
            elif line.startswith("docker run"):
                assert "heliograph" in words
    return found


@cases("command", commands())
def test_a_command_of_the_page_exists(command: str) -> None:
    words = shlex.split(command)[1:]
    if words[-2:-1] == [">"]:
        words = words[:-2]
    if words:
        _WHOLE.parse_args(words)


def test_the_make_targets_of_the_page_exist() -> None:
    assert "\ndocs: ##" in (_ROOT / "Makefile").read_text(encoding="utf-8")
