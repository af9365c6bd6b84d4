"""`kill -9` in the middle of appending: what was acknowledged is there, whole, in order, and once."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from heliograph.storage.interface import Batch, StoredMessage
from storage.appender import message
from support.databases import open_database
from support.forms import examples

ROUNDS = 6


def append_until_killed(data_dir: Path, first: int, lines: int) -> list[int]:
    """Run the appender, kill it after so many lines; the numbers that it said were acknowledged."""
    program = [
        sys.executable,
        str(Path(__file__).with_name("appender.py")),
        str(data_dir),
        str(first),
        "300",
        "1000000",
    ]
    acknowledged: list[int] = []
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        for _ in range(lines):
            acknowledged += _numbers(process.stdout.readline())
        process.kill()
        for line in process.stdout:  # said before it died
            acknowledged += _numbers(line) if line.endswith("\n") else []
    return acknowledged


def _numbers(line: str) -> range:
    word, first, last = line.split()
    assert word == "ok"
    return range(int(first), int(last) + 1)


def everything(data_dir: Path) -> list[StoredMessage]:
    database = open_database(data_dir)
    found: list[StoredMessage] = []
    for stream in database.get_streams("#"):
        iterator = database.make_iterator(stream.id, "#")
        while isinstance(batch := database.next(iterator, 5_000), Batch) and batch.messages:
            found += batch.messages
            iterator = batch.iterator
    database.close()
    return found


@pytest.mark.slow
def test_what_was_acknowledged_survives_kill_9(data_dir: Path) -> None:
    seed = random.randrange(10**9)
    numbers = random.Random(seed)
    acknowledged: list[int] = []
    for round_number in range(ROUNDS):
        first = round_number * 10_000_000
        acknowledged += append_until_killed(data_dir, first, numbers.randint(1, examples(100)))
        stored = everything(data_dir)
        by_number = {one.id_low: one for one in stored}
        assert len(by_number) == len(stored), f"doubled after {round_number + 1} crashes, seed {seed}"
        missing = [number for number in acknowledged if number not in by_number]
        assert not missing, f"{len(missing)} lost after {round_number + 1} crashes, first {missing[0]}, seed {seed}"
        for one in stored:
            original = message(one.id_low)
            assert (one.topic, one.payload, one.clientid) == (original.topic, original.payload, original.clientid)
        for topic in range(15):
            order = [one.id_low for one in stored if one.topic == f"crash/{topic}"]
            assert order == sorted(order), f"seed {seed}"
    assert len(acknowledged) > ROUNDS
