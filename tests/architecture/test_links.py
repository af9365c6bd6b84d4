"""Links between the Markdown pages lead to a page, and to a heading where they name one."""

import re
from functools import cache
from pathlib import Path

from support.cases import cases

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "examples").rglob("*.md"),
        ROOT / "tests/support/README.md",
    ]
)
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")


@cache
def headings(page: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    anchors: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        shown = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        anchor = re.sub(r"[^\w\- ]", "", shown).replace(" ", "-")
        anchors.add(f"{anchor}-1" if anchor in anchors else anchor)
    return anchors


@cases("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_link_leads_to_something(page: Path) -> None:
    dead = []
    for path, heading in LINK.findall(page.read_text(encoding="utf-8")):
        target = (page.parent / path).resolve() if path else page
        is_there = target.exists() and (not heading or target.suffix != ".md" or heading in headings(target))
        if not is_there:
            dead.append(f"{path}#{heading}")
    assert dead == []
