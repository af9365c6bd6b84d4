"""The normative statements of MQTT 5.0 and MQTT 3.1.1, and the mark of a test that proves some of them.

The tables beside this file hold one line for each statement of the specifications' appendix B: its tag, whom it binds,
the packet, and what it demands in our own words. `whom` is `server`, `client`, or `both` where both are bound or where
the server can see that the client breaks it. MQTT 3.1.1 misprints two of its tags (`MQTT-3.1.2.7`, `MQTT-3-8.3-4`)
and numbers section 1.5.3 as 1.4.0 in its appendix; the tables have them as its text does, put right.
"""

import csv
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, TypeVar

HERE: Final = Path(__file__).parent
TABLES: Final = {"5.0": "mqtt5.tsv", "3.1.1": "mqtt311.tsv"}
OLD: Final = "3.1.1 "  # what stands before a tag of MQTT 3.1.1 wherever one is written

TestT = TypeVar("TestT", bound=Callable[..., object])


@dataclass(frozen=True)
class Statement:
    """One normative statement.

    Args:
        tag: Its number, as `MQTT-3.3.1-12`.
        whom: `server`, `client` or `both`.
        packet: The control packets that it is about.
        demand: What it demands.
    """

    tag: str
    whom: str
    packet: str
    demand: str

    @property
    def concerns_server(self) -> bool:
        return self.whom != "client"


@dataclass(frozen=True)
class Leftover:
    """A statement that no line of code decides or no test proves, and why that is so.

    Args:
        lacks: `code`, `test` or `both`.
    """

    version: str
    tag: str
    lacks: str
    reason: str


@cache
def statements(version: str) -> dict[str, Statement]:
    """The statements of one version by their tags."""
    with (HERE / TABLES[version]).open(newline="", encoding="utf-8") as file:
        found = [Statement(**row) for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]
    return {statement.tag: statement for statement in found}


@cache
def leftovers() -> list[Leftover]:
    """What is left over, in the order of the table."""
    with (HERE / "leftovers.tsv").open(newline="", encoding="utf-8") as file:
        return [Leftover(**row) for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]


def proves(*tags: str) -> Callable[[TestT], TestT]:
    """Mark a test as the proof of statements, written as `MQTT-3.1.0-1` (MQTT 5) or `3.1.1 MQTT-3.1.0-1`.

    Raises:
        ValueError: A statement does not exist in that version.
    """
    for tag in tags:
        version = "3.1.1" if tag.startswith(OLD) else "5.0"
        if tag.removeprefix(OLD) not in statements(version):
            raise ValueError(f"{tag}: MQTT {version} has no such statement")

    def mark(test: TestT) -> TestT:
        return test

    return mark
