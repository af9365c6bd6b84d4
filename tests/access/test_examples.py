"""The examples of the pages about access are settings that a node can start with."""

from importlib.util import find_spec
from pathlib import Path

from heliograph.config.layers import Sources
from heliograph.node.checked_config import checked_config
from support.cases import cases

DOCS = Path(__file__).parents[2] / "docs"
ROOTS = ("authentication", "authorization", "listeners", "zones", "banned")


def examples() -> list[tuple[str, str]]:
    """Each block of settings: where it stands, and its text."""
    found = []
    for page in ("authentication.md", "authorization.md"):
        blocks = (DOCS / page).read_text().split("```")[1::2]
        for block in blocks:
            language, _, text = block.partition("\n")
            if "gssapi" in text and find_spec("gssapi") is None:  # a library that few have
                continue
            if language in ("", "hocon") and text.lstrip().startswith(ROOTS):
                found.append((f"{page}: {text.strip().splitlines()[0]}", text))
    return found


@cases("text", [text for _, text in examples()], ids=[name for name, _ in examples()])
def test_an_example_is_a_configuration(tmp_path: Path, text: str) -> None:
    (tmp_path / "node.conf").write_text(text)
    checked_config(Sources(tmp_path / "node.conf", {}, {"node.data_dir": str(tmp_path)}).read())


def test_there_are_examples() -> None:
    assert len(examples()) > 10
