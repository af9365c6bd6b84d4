"""Run as a program: append messages through a group commit and say what was acknowledged, until killed or done.

Arguments: data directory, first number, window, and how many messages to append at most. Says `ready`, then a line
`ok NUMBER NUMBER` for each acknowledged run of numbers, or `refused CODE`.
"""

import asyncio
import sys
from pathlib import Path

from heliograph.storage.columnar.node_databases import NodeDatabases
from heliograph.storage.errors import StorageError
from heliograph.storage.group_commit import GroupCommit
from heliograph.storage.interface import DatabaseOptions, StoredMessage


def message(number: int) -> StoredMessage:
    """The message of a number; its payload tells the number twice, so that a torn one would show."""
    payload = b"%d %d" % (number, number) + b"." * (number % 100)
    return StoredMessage(number, number, f"crash/{number % 15}", payload, 1, False, f"c{number % 5}", None, b"", 0)


def say(line: str) -> None:
    """One line to whoever started this."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


async def append(data_dir: Path, first: int, window: int, total: int) -> None:
    """Keep `window` messages on their way until `total` are answered for."""
    database = NodeDatabases(data_dir).database("messages", DatabaseOptions())
    database.open()
    numbers: dict[int, list[int]] = {}
    finished = asyncio.get_running_loop().create_future()
    following = first
    waiting = 0

    def fill() -> None:
        nonlocal following, waiting
        while waiting < window and following < first + total:
            numbers.setdefault(commit.append(message(following)), []).append(following)
            following += 1
            waiting += 1
        if not waiting and not finished.done():
            finished.set_result(None)

    def committed(ticket: int, error: StorageError | None) -> None:
        nonlocal waiting
        done = numbers.pop(ticket)
        waiting -= len(done)
        say(f"ok {done[0]} {done[-1]}" if error is None else f"refused {error.code}")
        asyncio.get_running_loop().call_soon(fill)

    commit = GroupCommit(database, committed)
    say("ready")
    fill()
    await finished
    await commit.close()
    database.close()


if __name__ == "__main__":
    asyncio.run(append(Path(sys.argv[1]), *map(int, sys.argv[2:5])))
