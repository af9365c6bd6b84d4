"""What is done only with a reason has it beside it: a sleep, and a type that is not checked.

Most sleeps that poll should wait for an event, a line of a log or a message.
"""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: Turns of an event loop are no sleep.
_SLEEP = re.compile(r"\b(?:time|asyncio)\.sleep\((?!0\))")
#: These keep a pace: that is what they are for.
_PACED = {"bench/src/heliograph_bench/driver.py", "src/heliograph/node/ticker.py"}
#: The constant says what is waited for.
_PAUSES = re.compile(r"sleep\((?:_RETRY_S|pause_s|max\(0\.0, self\._started_at)")
_IGNORED = re.compile(r"# type: ignore\[[a-z, -]+\]$")


def test_each_sleep_has_a_reason_beside_it() -> None:
    bare = [
        f"{path.relative_to(ROOT)}:{number}"
        for top in ("src", "bench", "tests")
        for path in sorted((ROOT / top).rglob("*.py"))
        if str(path.relative_to(ROOT)) not in _PACED
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if _SLEEP.search(line.split("#")[0]) and "#" not in line and not _PAUSES.search(line) and '"' not in line
    ]
    assert bare == []


def test_each_type_that_is_not_checked_has_a_reason_beside_it() -> None:
    bare = [
        f"{path.relative_to(ROOT)}:{number}"
        for top in ("src", "bench", "tests", "scripts", "benchmarks", "examples")
        for path in sorted((ROOT / top).rglob("*.py"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if _IGNORED.search(line)
    ]
    assert bare == []
