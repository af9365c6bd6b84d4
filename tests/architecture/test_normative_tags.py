"""Normative tags, `[MQTT-3.3.1-12]`: they must name statements that can exist, and those of the bank stand in order."""

import re
from pathlib import Path

from mqtt.bank import CASES

ROOT = Path(__file__).parents[2]
MENTION = re.compile(r"\[?MQTT-[0-9][^\s\]\"',;:)]*\]?")
VALID = re.compile(r"\[MQTT-[1-6]\.[0-9]{1,2}\.[0-9]{1,2}-[1-9][0-9]?\]")

# Sections with normative statements, MQTT 5 and 3.1.1 together.
SECTIONS = {
    "1.5": range(3, 6),
    "2.1": range(3, 4),
    "2.2": range(1, 3),
    "2.3": range(1, 2),
    "3.1": range(5),
    "3.2": range(3),
    "3.3": range(1, 6),
    "3.4": range(1, 3),
    "3.5": range(1, 3),
    "3.6": range(1, 3),
    "3.7": range(1, 3),
    "3.8": range(1, 5),
    "3.9": range(2, 4),
    "3.10": range(1, 5),
    "3.11": range(2, 4),
    "3.12": range(1, 5),
    "3.14": range(5),
    "3.15": range(1, 3),
    "4.1": range(1),
    "4.2": range(1),
    "4.3": range(1, 4),
    "4.4": range(1),
    "4.5": range(1),
    "4.6": range(1),
    "4.7": range(1, 4),
    "4.8": range(1, 3),
    "4.9": range(1),
    "4.12": range(2),
    "4.13": range(1, 3),
    "6.0": range(1),
}


def sources() -> list[Path]:
    return sorted([*(ROOT / "src").glob("**/*.py"), *(ROOT / "tests").glob("**/*.py")])


def test_tags_in_code_have_the_valid_form() -> None:
    wrong = []
    for path in sources():
        if path == Path(__file__) or path.name == "bank.py":
            continue
        for number, line in enumerate(path.read_text().splitlines(), start=1):
            for mention in MENTION.findall(line):
                if not VALID.fullmatch(mention) or not exists(mention.strip("[]")):
                    wrong.append(f"{path.relative_to(ROOT)}:{number}: {mention}")
    assert wrong == []


def test_tags_of_the_bank_have_the_valid_form() -> None:
    wrong = [
        f"{case.name}: {tag}"
        for case in CASES
        for tag in case.tags
        if not VALID.fullmatch(f"[{tag}]") or not exists(tag)
    ]
    assert wrong == []


def exists(tag: str) -> bool:
    """Whether the section of a tag has normative statements at all."""
    section = tag.removeprefix("MQTT-").rsplit("-", 1)[0]
    chapter, _, number = section.rpartition(".")
    return int(number) in SECTIONS.get(chapter, ())


def test_the_form_itself() -> None:
    assert VALID.fullmatch("[MQTT-3.3.1-12]")
    assert exists("MQTT-3.3.1-12")
    assert exists("MQTT-4.6.0-1")
    assert not VALID.fullmatch("MQTT-3.3.1-12")
    assert not VALID.fullmatch("[MQTT-3.3.1]")
    assert not VALID.fullmatch("[MQTT-3.3-1]")
    assert not VALID.fullmatch("[MQTT-3.3.1-0]")
    assert not VALID.fullmatch("[MQTT5-3.3.1-2]")
    assert not exists("MQTT-3.13.1-1")
