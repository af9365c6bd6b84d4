"""The pages about features and hook points: what they show runs, and what they list is there."""

import re
import shlex
from pathlib import Path

import pytest

from heliograph.broker import hooks
from heliograph.cli.main import main
from heliograph.config.loading import load_config
from support.cases import cases
from support.kernel import Kernel
from support.services import Node

DOCS = Path(__file__).parents[2] / "docs"
FEATURES = (DOCS / "features.md").read_text(encoding="utf-8")
HOOKS = (DOCS / "hooks.md").read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    """The code blocks of a page in one language."""
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


@cases("block", blocks(FEATURES, "hocon"))
def test_configurations_are_valid(block: str, tmp_path: Path) -> None:
    file = tmp_path / "node.conf"
    file.write_text(block, encoding="utf-8")
    load_config(file)
    Node(block)


def test_commands_print_what_the_page_shows(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = blocks(FEATURES, "console")
    shown = re.findall(r"^\$ heliograph (.+)\n(.+)$", block, re.MULTILINE)
    assert len(shown) >= 5
    for command, printed in shown:
        main(shlex.split(command))
        assert capsys.readouterr().out == printed + "\n"


def test_the_file_of_bans_is_one(tmp_path: Path) -> None:
    (block,) = blocks(FEATURES, "csv")
    file = tmp_path / "banned.csv"
    file.write_text(block, encoding="utf-8")
    node = Node(f'banned.bootstrap_file = "{file}"')
    assert node.statistics()["banned.count"] == 2


def test_every_hook_point_is_listed_once() -> None:
    rows = [line for line in HOOKS.splitlines() if line.startswith("| `")]
    listed = [name for row in rows for name in re.findall(r"`([a-z]+\.[a-z_]+)`", row.split("|")[1])]
    assert sorted(listed) == sorted(hooks.NAMES)


def test_the_example_does_what_the_page_says() -> None:
    (block,) = blocks(HOOKS, "python")
    namespace: dict[str, object] = {}
    exec(block, namespace)
    kernel = Kernel()
    install = namespace["install"]
    assert callable(install)
    install(kernel.broker.hooks)
    watcher = kernel.connect("watcher")
    assert watcher.subscribe("private/t") == [0x87]
    assert watcher.subscribe("talk/#") == [0]
    talker = kernel.connect("talker")
    for payload in (b"1", b"2", b"3"):
        talker.publish("talk/t", payload)
    kernel.connect("other").publish("talk/t", b"4")
    assert watcher.heard() == [f"PUBLISH talk/t '{number}' q0" for number in (1, 2, 4)]
    assert kernel.hook_failures == []
