"""Generations that come and go in a process that is killed: each step is there whole or not at all."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from heliograph.storage.errors import DroppedGenerationError
from heliograph.storage.interface import StreamId
from reference.storage import replayed
from support.databases import open_database

pytestmark = pytest.mark.slow

SCRIPT = """
import sys
from pathlib import Path
from heliograph.storage.interface import DatabaseOptions
from reference.storage import message
from support.databases import open_database, store_batch

database = open_database(Path(sys.argv[1]), options=DatabaseOptions(n_shards=2))
for number in range(int(sys.argv[2]), 10**9):
    store_batch(database, [message(f"a/{n}", b"%d" % number + b"." * 20_000, f"c{n}") for n in range(3)])
    print("stored", number, flush=True)
    if number % 3 == 0:
        database.add_generation()
        generations = database.list_generations()
        print("added", generations[-1].number, flush=True)
        if len(generations) > 6:
            database.drop_generation(generations[0].number)
            print("dropped", generations[0].number, flush=True)
"""


def test_a_kill_leaves_every_generation_whole_or_gone(tmp_path: Path) -> None:
    first, newest_dropped = 0, 0
    for lines in (2, 3, 9, 14, 23, 31, 40, 60):
        with subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(tmp_path), str(first)],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])},
        ) as process:
            assert process.stdout is not None
            said = [process.stdout.readline().split() for _ in range(lines)]
            process.kill()
            said += [line.split() for line in process.stdout.read().splitlines() if line.count(" ") == 1]
        last = {what: int(number) for what, number in said}
        newest_dropped = max(newest_dropped, last.get("dropped", 0))
        database = open_database(tmp_path)
        numbers = sorted({info.number for info in database.list_generations()})
        assert numbers == list(range(numbers[0], numbers[-1] + 1))
        assert Counter(info.number for info in database.list_generations()) == dict.fromkeys(numbers, 2)
        assert numbers[0] > newest_dropped
        assert numbers[-1] >= last.get("added", 0)
        found = Counter(int(message.payload.rstrip(b".")) for message in replayed(database))
        assert set(found.values()) <= {3}
        assert sorted(found) == list(range(min(found), max(found) + 1))
        assert max(found) >= last.get("stored", 0)
        for number in range(1, numbers[0]):
            with pytest.raises(DroppedGenerationError):
                database.make_iterator(StreamId("messages", 0, number, 1), "#")
        first = max(found) + 1
        database.close()
    assert newest_dropped > 5
