"""What `docs/architecture.md` names is in the tree."""

import re
from pathlib import Path

from support.cases import cases

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "heliograph"
PAGE = (ROOT / "docs" / "architecture.md").read_text()
FUNCTIONS = sorted(set(re.findall(r"`([\w/]+\.py)`\s+`([\w.]+)`", PAGE)))
MODULES = sorted(set(re.findall(r"`([\w/]+\.py)`", PAGE)))


@cases("name", MODULES)
def test_a_module_that_the_page_names_exists(name: str) -> None:
    found = [SOURCES / name] if "/" in name else list(SOURCES.rglob(name))
    assert any(path.exists() for path in (*found, ROOT / name)), f"docs/architecture.md names {name}"


@cases(("module", "name"), FUNCTIONS)
def test_a_function_that_the_page_names_beside_its_module_is_there(module: str, name: str) -> None:
    paths = [SOURCES / module] if "/" in module else list(SOURCES.rglob(module))
    texts = [path.read_text() for path in paths if path.exists()]
    words = name.split(".")
    assert any(all(re.search(rf"\b(def|class) {word}\b", text) for word in words) for text in texts), (
        f"{module}: {name}"
    )


def test_a_package_that_the_page_lists_exists_and_all_are_listed() -> None:
    listed = re.findall(r"^  (\w+)/ ", PAGE.partition("src/heliograph/\n")[2].partition("```")[0], re.MULTILINE)
    assert set(listed) == {path.parent.name for path in SOURCES.glob("*/__init__.py")}


def test_the_page_says_where_thirty_things_are_changed() -> None:
    table = PAGE.partition("## Where is what")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.+) \| (.+) \|$", table, re.MULTILINE)[1:]
    assert len(rows) >= 30
    for question, answer in rows:
        for name in re.findall(r"`([\w/]+/)`", answer):
            assert (SOURCES / name).is_dir(), f"{question}: {name}"
