"""The runbook names every alarm that there is, and nothing that there is not."""

import asyncio
import re
from pathlib import Path

import heliograph
from heliograph.cli.main import whole_parser
from heliograph.cli.usage import commands_of
from heliograph.config.description import every_setting
from heliograph.config.loading import load_config
from heliograph.node import Node, memory_policy

ROOT = Path(heliograph.__file__).parent
RUNBOOK = (Path(__file__).parents[2] / "docs" / "runbook.md").read_text(encoding="utf-8")

# Modules that raise alarms hold no other constants of that form.
_RAISES = re.compile(r"^from heliograph\.observe\.(?:alarms|lasting) import", re.MULTILINE)
_CONSTANT = re.compile(r'^[A-Z_]+(?:: Final)? = "([a-z]+(?:_[a-z]+)+)"', re.MULTILINE)
_LITERAL = re.compile(r'\.activate\(\s*f?"([a-z_]+)')
_NAME = re.compile(r"`([a-z_][a-z0-9_]*(?:\.[a-z0-9_]+)+)`")


def alarms() -> set[str]:
    """The names of all alarms, or what they begin with."""
    found = set(memory_policy.NAMES[1:])
    for file in ROOT.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        found.update(re.findall(r'^_?[A-Z_]*ALARM(?:: Final)? = "([a-z_]+)"', text, re.MULTILINE))
        if _RAISES.search(text):
            found.update(_CONSTANT.findall(text), _LITERAL.findall(text))
    return found


def test_every_alarm_has_a_row() -> None:
    _, table = RUNBOOK.split("\n## Alarms\n")
    listed = {name.partition("/")[0] for name in re.findall(r"^\| `([^`]+)`", table, re.MULTILINE)}
    assert listed == alarms()
    assert len(listed) > 8


def test_counters_and_settings_are_there(tmp_path: Path) -> None:
    async def names() -> set[str]:
        settings = 'listeners.tcp.default.bind = "127.0.0.1:0"\ndurable_storage.flight.bind = "127.0.0.1:0"\n'
        file = tmp_path / "node.conf"
        file.write_text(settings)
        node = Node(load_config(file, {}, {"node.data_dir": str(tmp_path / "data")}))
        await node.start()
        found = set(node.statistics())
        await node.stop()
        return found

    known = asyncio.run(names()) | set(re.findall(r"^\| `([^`]+)`", "\n".join(every_setting()), re.MULTILINE))
    mentioned = set(_NAME.findall(RUNBOOK)) - {"details.code"}
    assert {name for name in mentioned if not {name, name.replace(".default.", ".NAME.")} & known} == set()


def test_links_within_the_page_lead_somewhere() -> None:
    titles = re.findall(r"^## (.+)$", RUNBOOK, re.MULTILINE)
    headings = {re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-") for title in titles}
    assert set(re.findall(r"\(#([a-z-]+)\)", RUNBOOK)) <= headings


def test_commands_take_what_the_page_gives_them() -> None:
    commands = {" ".join(command.split()) for command in re.findall(r"`heliograph ([^`]+)`", RUNBOOK)}
    assert len(commands) >= 5
    for command in commands:
        parser, words = whole_parser(), command.split()
        while words and words[0] in commands_of(parser):
            _, parser = commands_of(parser)[words.pop(0)]
        text = parser.format_help()
        assert len(words) < len(command.split()), f"there is no command {command}"
        assert all(word in text for word in words if word.startswith("--")), command
