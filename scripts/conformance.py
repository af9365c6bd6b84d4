"""Compares the normative statements of both specifications with the tags in code and tests. `make conformance`.

A line of `src/heliograph` that decides a statement, and a test that proves it, carry its tag: `[MQTT-3.3.1-12]` is a
statement of MQTT 5.0, `3.1.1 [MQTT-3.1.2-24]` one of MQTT 3.1.1. This prints which statements that concern a server
stand nowhere, which tags stand for no statement, and what is left over with its reason. It exits with 1 if anything is
missing without a reason, if a reason is given for what is not missing, or if a tag is wrong.

    python scripts/conformance.py             the report
    python scripts/conformance.py --markdown  the tables of docs/conformance.md
    python scripts/conformance.py --where MQTT-3.3.1-12   the lines that carry a tag
"""

import argparse
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path[0] = str(ROOT / "tests")  # instead of this directory, where `conformance` would be this file

from conformance.statements import TABLES, Leftover, Statement, leftovers, statements  # noqa: E402

CODE: Final = "src/heliograph"
TESTS: Final = "tests"
# They speak of tags and prove none.
TOLD_APART: Final = [ROOT / "tests/conformance" / name for name in ("statements.py", "test_statements.py")]
# Any attempt at a tag; what does not match `TAG` as a whole is one gone wrong.
MENTION: Final = re.compile(r"(?P<old>3\.1\.1 )?(?P<open>\[?)(?P<tag>MQTT[-0-9]*-[0-9][-0-9.]*[0-9])(?P<close>\]?)")
TAG: Final = re.compile(r"MQTT-[0-9]+(\.[0-9]+)+-[1-9][0-9]*")


@dataclass(frozen=True)
class Mention:
    """One tag at one line."""

    version: str
    tag: str
    place: str
    bracketed: bool


@dataclass
class Survey:
    """What was found for one version."""

    version: str
    code: dict[str, list[str]] = field(default_factory=dict)
    tests: dict[str, list[str]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    @property
    def concerned(self) -> list[Statement]:
        """The statements that concern a server."""
        return [statement for statement in statements(self.version).values() if statement.concerns_server]

    @property
    def left_over(self) -> list[Leftover]:
        """The statements that lack something for a reason."""
        return [left for left in leftovers() if left.version == self.version]

    @property
    def without_code(self) -> list[Statement]:
        """The statements at no line of the code, without a reason for that."""
        return self._lacking(self.code, "code")

    @property
    def without_test(self) -> list[Statement]:
        """The statements in no test, without a reason for that."""
        return self._lacking(self.tests, "test")

    def is_complete(self) -> bool:
        """Whether nothing is missing and nothing wrong."""
        return not (self.without_code or self.without_test or self.faults)

    def needless(self) -> Iterator[str]:
        """Reasons for statements that are not there or lack nothing."""
        for left in self.left_over:
            if left.tag not in statements(self.version):
                yield f"{left.tag} is left over and no statement of MQTT {self.version}"
            for name, found in (("code", self.code), ("test", self.tests)):
                if left.lacks in (name, "both") and left.tag in found:
                    yield f"{left.tag} has a {name} and is left over"

    def _lacking(self, found: dict[str, list[str]], what: str) -> list[Statement]:
        excused = {left.tag for left in self.left_over if left.lacks in (what, "both")}
        return [one for one in self.concerned if one.tag not in found and one.tag not in excused]


def mentions(directory: str, *, bracketed: bool) -> Iterator[Mention]:
    """Every tag in the Python files of a directory; with `bracketed`, one without brackets is a fault."""
    for path in sorted((ROOT / directory).glob("**/*.py")):
        if path in TOLD_APART:
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            for match in MENTION.finditer(line):
                version = "3.1.1" if match["old"] else "5.0"
                place = f"{path.relative_to(ROOT)}:{number}"
                yield Mention(version, match["tag"], place, bool(match["open"] and match["close"]) or not bracketed)


def survey() -> dict[str, Survey]:
    """Look at code and tests."""
    surveys = {version: Survey(version) for version in TABLES}
    for directory, bracketed in ((CODE, True), (TESTS, False)):
        for mention in mentions(directory, bracketed=bracketed):
            found = surveys[mention.version]
            if not TAG.fullmatch(mention.tag) or not mention.bracketed:
                found.faults.append(f"{mention.place}: {mention.tag} is not written as [MQTT-3.3.1-12]")
            elif mention.tag not in statements(mention.version):
                found.faults.append(f"{mention.place}: MQTT {mention.version} has no {mention.tag}")
            else:
                where = found.code if bracketed else found.tests
                where.setdefault(mention.tag, []).append(mention.place)
    for found in surveys.values():
        found.faults += found.needless()
    return surveys


def report(found: Survey) -> Iterator[str]:
    """What was found for one version, for people."""
    tags = [one.tag for one in found.concerned]
    code, tests = sum(tag in found.code for tag in tags), sum(tag in found.tests for tag in tags)
    yield f"MQTT {found.version}: {len(statements(found.version))} statements, {len(tags)} concern a server;"
    yield f"  {code} stand in the code, {tests} in tests, {len(found.left_over)} are left over"
    for title, lacking in (("at no line of the code", found.without_code), ("in no test", found.without_test)):
        if lacking:
            yield f"  {title}: {len(lacking)}"
            yield from (f"    {one.tag:<16}{one.packet}: {one.demand}" for one in lacking)
    if found.faults:
        yield "  faults:"
        yield from (f"    {fault}" for fault in found.faults)
    if found.left_over:
        yield "  left over:"
        yield from (f"    {left.tag} without {left.lacks}: {left.reason}" for left in found.left_over)
    yield ""


def markdown(surveys: dict[str, Survey]) -> Iterator[str]:
    """The tables of docs/conformance.md."""
    yield "| | Statements | Concern a server | Of these left over |"
    yield "| --- | --- | --- | --- |"
    for version, found in surveys.items():
        counts = (len(statements(version)), len(found.concerned), len(found.left_over))
        yield f"| MQTT {version} | " + " | ".join(str(count) for count in counts) + " |"
    yield ""
    yield "| Left over | Lacks | Reason |"
    yield "| --- | --- | --- |"
    for left in leftovers():
        yield f"| {left.version} `{left.tag}` | {left.lacks} | {left.reason} |"


def where(surveys: dict[str, Survey], tag: str) -> Iterator[str]:
    """The lines that carry a tag."""
    for version, found in surveys.items():
        statement = statements(version).get(tag)
        if statement is not None:
            yield f"MQTT {version} {tag} ({statement.whom}), {statement.packet}: {statement.demand}"
            for place in found.code.get(tag, []) + found.tests.get(tag, []):
                yield f"  {place}"


def main() -> int:
    """Print the report; 1 if something is missing or wrong."""
    parser = argparse.ArgumentParser(description="Which normative statements stand at no line of code or in no test.")
    parser.add_argument("--markdown", action="store_true", help="print the tables of docs/conformance.md")
    parser.add_argument("--where", metavar="TAG", help="print the lines that carry a tag")
    arguments = parser.parse_args()
    surveys = survey()
    if arguments.markdown:
        lines = list(markdown(surveys))
    elif arguments.where:
        lines = list(where(surveys, arguments.where))
    else:
        lines = [line for found in surveys.values() for line in report(found)]
    sys.stdout.write("\n".join(lines) + "\n")
    is_report = not arguments.markdown and not arguments.where
    return 1 if is_report and not all(found.is_complete() for found in surveys.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
