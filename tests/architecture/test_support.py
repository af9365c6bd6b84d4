"""The map of `tests/support` names every module there, and no other."""

import re
from pathlib import Path

SUPPORT = Path(__file__).parents[1] / "support"


def test_the_map_of_support_is_whole() -> None:
    named = re.findall(r"^\| `(\w+)` \|", (SUPPORT / "README.md").read_text(), re.MULTILINE)
    assert sorted(named) == sorted(path.stem for path in SUPPORT.glob("*.py") if path.stem != "__init__")
