"""Short words for the tests of `retainer`."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from heliograph.broker.message import Message, make_message
from heliograph.broker.retained import RetainedMatches
from heliograph.retainer.disk import DiskRetainer, RetainedCommits
from heliograph.retainer.memory import MemoryRetainer
from heliograph.retainer.options import RetainerOptions
from heliograph.retainer.retainer import Retainer
from heliograph.storage.keyed.changes import KeyedChange
from heliograph.storage.keyed.table import KeyedTable
from support.kernel import Kernel
from support.options import RETAINER
from support.reach import reachable

KINDS = ("ram", "disc", "disc-late")


class Commits(RetainedCommits):
    """Writes each change at once, or when a test says so."""

    def __init__(self, table: KeyedTable, at_once: bool = True) -> None:
        super().__init__()
        self.table = table
        self.at_once = at_once
        self.waiting: list[KeyedChange] = []

    def submit(self, change: KeyedChange, awaited: bool) -> None:
        self.waiting.append(change)
        if self.at_once:
            self.write()

    def is_idle(self) -> bool:
        return not self.waiting

    def write(self) -> None:
        waiting, self.waiting = self.waiting, []
        self.table.write(waiting)


def make_retainer(kind: str, path: Path, options: RetainerOptions = RETAINER) -> Retainer:
    """A store of one kind; what is kept `disc-late` is not written before time passes."""
    kernel = Kernel()
    if kind == "ram":
        return MemoryRetainer(kernel.broker, options)
    table = KeyedTable("retained", path / "keyed" / "retained", clock=lambda: int(kernel.broker.now_us))
    table.open()
    return DiskRetainer(kernel.broker, table, Commits(table, kind == "disc"), options)


def settle(retainer: Retainer) -> None:
    """Have what waits for it written."""
    if isinstance(retainer, DiskRetainer):
        for commits in reachable(retainer, Commits, within="heliograph.retainer"):
            commits.write()


def close(retainer: Retainer) -> None:
    """Leave it as a process that ends does."""
    if isinstance(retainer, DiskRetainer):
        retainer.table.close()


def retain(retainer: Retainer, topic: str, payload: bytes = b"x", *, expiry_s: int | None = None) -> bool:
    """Retain a message that is received now; whether it goes on to subscribers."""
    expiry = b"" if expiry_s is None else b"\x02" + expiry_s.to_bytes(4, "big")
    message = make_message(retainer.broker.now_us, 1, topic, payload, 0, True, expiry, "pub", None)
    return retainer.retain(message)


def each(matches: RetainedMatches) -> Iterator[Message]:
    """What is left of some matches."""
    while not matches.is_done():
        message = matches.next()
        if message is not None:
            yield message


def read(matches: RetainedMatches) -> list[tuple[str, bytes]]:
    """What is left of some matches: topics and payloads."""
    return [(message.topic, message.payload) for message in each(matches)]


def clear(retainer: Retainer, topic_filter: str, count_max: int | None = None) -> int:
    """Clear topics that a filter matches; how many it were."""
    found = [message.topic for message in islice(each(retainer.match(topic_filter)), count_max)]
    for topic in found:
        retain(retainer, topic, b"")
    return len(found)


def topics(retainer: Retainer, topic_filter: str = "#") -> list[str]:
    """The topics with a retained message that a filter matches, in alphabetical order."""
    return sorted(topic for topic, _ in read(retainer.match(topic_filter)))
