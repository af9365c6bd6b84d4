"""The check of words finds those of the glossary; `make lint` runs it on the whole tree."""

from pathlib import Path

from scripts.check_words import GLOSSARY, offences, read_rules

from architecture.syntax import ROOT
from support.cases import cases

RULES = read_rules((ROOT / GLOSSARY).read_text(encoding="utf-8"))


def found_in(folder: Path, name: str, text: str) -> list[int]:
    (folder / "docs").mkdir(exist_ok=True)
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return [offence.line for offence in offences(RULES, folder)]


@cases(
    ("text", "lines"),
    [
        ("A node is told.", [1]),
        ("The text\nbegins anew, and a rule is no\nmore.", [2, 2]),
        ("No more than ten, and there is none.", []),
        ("Have a listener begin.", [1, 1]),
        ("They have a source asked, and have them made.", [1, 1]),
        ("They have a source that is asked.", []),
        ("`told`, and\n```\ntold\n```\nwhom", [5]),
    ],
)
def test_words_of_a_page(tmp_path: Path, text: str, lines: list[int]) -> None:
    assert found_in(tmp_path, "docs/page.md", text) == lines


@cases(
    ("text", "lines"),
    [
        ('"""A module.\n\nIt is told.\n"""\n', [3]),
        ("x = 1  # nobody\n", [1]),
        ("# a comment of no\n# more than one line, and no\n# more of it\n", [2]),
        ("told = 1\nx = {'told': told}\n", []),
        ("x = f'it is told {told}'\n", [1]),
        ('"""Takes.\n\nArgs:\n    told: What `told` holds.\n"""\n', []),
    ],
)
def test_words_of_a_module(tmp_path: Path, text: str, lines: list[int]) -> None:
    assert found_in(tmp_path, "src/heliograph/module.py", text) == lines
