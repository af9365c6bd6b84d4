"""What the pages about the code name is in the tree."""

import re
from pathlib import Path

from support.cases import cases

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "heliograph"
STATIC = SOURCES / "management" / "dashboard" / "static"
DOCS = ROOT / "docs"
PAGES = [DOCS / f"{name}.md" for name in ("architecture", "tour", "where", "paths", "node", "performance")]
PAGES.append(ROOT / "CONTRIBUTING.md")
DECISIONS = sorted((DOCS / "decisions").glob("*.md"))
MAP = (DOCS / "architecture.md").read_text(encoding="utf-8")
INDEX = (DOCS / "where.md").read_text(encoding="utf-8")


def modules(name: str) -> list[Path]:
    """The files that a page means by `name`: in the sources, the root or the dashboard; anywhere without a folder.

    A name in capitals stands for any name: its folder is meant.
    """
    folder, _, file = name.rpartition("/")
    if file.partition(".")[0].isupper():
        return modules(folder)
    found = [] if folder else list(SOURCES.rglob(name))
    return [path for path in (*found, SOURCES / name, ROOT / name, STATIC / name) if path.exists()]


@cases("page", [*PAGES, *DECISIONS], ids=lambda page: page.name)
def test_a_module_that_a_page_names_exists(page: Path) -> None:
    names = set(re.findall(r"`([\w./-]+\.(?:py|js|c|toml))`", page.read_text(encoding="utf-8")))
    assert [name for name in sorted(names) if not modules(name)] == []


@cases("page", [*PAGES, *DECISIONS], ids=lambda page: page.name)
def test_a_function_that_a_page_names_beside_its_module_is_there(page: Path) -> None:
    for module, name in re.findall(r"`([\w/]+\.py)`\s+`([\w.]+)`", page.read_text(encoding="utf-8")):
        texts = [path.read_text(encoding="utf-8") for path in modules(module)]
        words = name.split(".")
        assert any(all(re.search(rf"\b(def|class) {word}\b", text) for word in words) for text in texts), (
            f"{module}: {name}"
        )


def test_a_package_that_the_map_lists_exists_and_all_are_listed() -> None:
    listed = re.findall(r"^  (\w+)/ ", MAP.partition("src/heliograph/\n")[2].partition("```")[0], re.MULTILINE)
    assert set(listed) == {path.parent.name for path in SOURCES.glob("*/__init__.py")}


def test_the_map_has_the_same_layers_as_the_check_of_imports() -> None:
    shown = MAP.partition("## Which package may import which")[2].partition("```\n")[2].partition("```")[0]
    contract = (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition("layers = [\n")[2].partition("\n]")[0]
    checked = [re.findall(r"(?<!\()heliograph\.(\w+)", line) for line in contract.splitlines()]
    assert [line.split(" | ") for line in shown.splitlines()] == [layer for layer in checked if layer]


def test_the_index_says_where_thirty_things_are_changed() -> None:
    rows = re.findall(r"^\| (.+) \| (.+) \|$", INDEX, re.MULTILINE)[1:]
    assert len(rows) >= 30
    for question, answer in rows:
        for name in re.findall(r"`([\w/]+/)`", answer):
            assert (SOURCES / name).is_dir(), f"{question}: {name}"


def test_the_index_of_decisions_has_all_of_them() -> None:
    index = next(page for page in DECISIONS if page.name == "README.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| \[.+\]\((\w+\.md)\) \|", index, re.MULTILINE)) == sorted(
        page.name for page in DECISIONS if page.name != "README.md"
    )
