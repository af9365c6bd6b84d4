"""Lists that change while they are walked through: a step costs the same however long the list is.

A list of a million clients is sent in slices and pages, and between two of them clients come and go. A copy of it
would take milliseconds, and a dictionary cannot be entered in its middle. So everything that is listed gets a serial
number, higher than those of all before it, and stands in its order in chunks of a few hundred. A walk goes from the
newest to the oldest, and all that it needs to go on, now or in an hour, is the number of the entry that it met last:
it meets what was there the whole time once, and nothing twice. To pass over many entries costs a step for each chunk.
"""

from typing import Final, Generic, TypeVar

from mypy_extensions import i64, mypyc_attr

_CHUNK: Final = 256
_MERGED: Final = 128  # two chunks that have at most so many together become one


@mypyc_attr(allow_interpreted_subclasses=True)
class Listed:
    """What may stand in one list; `serial` is its number there, 0 while it stands in none."""

    def __init__(self) -> None:
        self.serial: i64 = 0


Entry = TypeVar("Entry", bound=Listed)


class ListWalk(Generic[Entry]):
    """A walk through a list, from the newest entry to the oldest; owned by its caller, and just dropped."""

    def __init__(self, listed: "WalkableList[Entry]", before: i64) -> None:
        self._listed = listed
        self.before: i64 = before

    def take(self, count_max: i64) -> list[Entry]:
        """The next entries, so many at the most; none at the end."""
        taken: list[Entry] = []
        chunks = self._listed.chunks
        at = _chunk_of(chunks, self.before - 1)
        while at >= 0 and count_max > 0:
            chunk = chunks[at]
            index = _index_before(chunk, self.before)
            some = chunk[max(0, index - count_max) : index]
            some.reverse()
            taken.extend(some)
            count_max -= len(some)
            at -= 1
        if taken:
            self.before = taken[len(taken) - 1].serial
        return taken

    def skip(self, count: i64) -> None:
        chunks = self._listed.chunks
        at = _chunk_of(chunks, self.before - 1)
        while at >= 0 and count > 0:
            chunk = chunks[at]
            index = _index_before(chunk, self.before)
            if index > count:
                self.before = chunk[index - count].serial
                return
            if index > 0:
                self.before = chunk[0].serial
                count -= index
            at -= 1


class WalkableList(Generic[Entry]):
    """Everything of one kind; owned by what adds and removes it.

    Attributes:
        last_serial: The number of what was added last.
    """

    def __init__(self) -> None:
        self.chunks: list[list[Entry]] = []
        self.last_serial: i64 = 0
        self._count: i64 = 0

    def __len__(self) -> int:
        return int(self._count)

    def add(self, entry: Entry) -> None:
        """List something that stands in no list; walks under way do not meet it."""
        self.last_serial += 1
        entry.serial = self.last_serial
        self._count += 1
        chunks = self.chunks
        if chunks:
            last = chunks[len(chunks) - 1]
            if len(last) < _CHUNK:
                last.append(entry)
                return
        chunks.append([entry])

    def replace(self, entry: Entry, other: Entry) -> None:
        chunk = self.chunks[_chunk_of(self.chunks, entry.serial)]
        other.serial = entry.serial
        chunk[_index_before(chunk, entry.serial)] = other
        entry.serial = 0

    def remove(self, entry: Entry) -> None:
        chunks = self.chunks
        at = _chunk_of(chunks, entry.serial)
        chunk = chunks[at]
        del chunk[_index_before(chunk, entry.serial)]
        entry.serial = 0
        self._count -= 1
        if not chunk:
            del chunks[at]
        elif at + 1 < len(chunks) and len(chunk) + len(chunks[at + 1]) <= _MERGED:
            chunk.extend(chunks.pop(at + 1))
        elif at > 0 and len(chunk) + len(chunks[at - 1]) <= _MERGED:
            chunks[at - 1].extend(chunks.pop(at))

    def walk(self, before: i64 = 0) -> ListWalk[Entry]:
        """Begin a walk through what is listed now.

        Args:
            before: Only what has a lower number; 0 for everything.
        """
        return ListWalk(self, before if before > 0 else self.last_serial + 1)


def _chunk_of(chunks: list[list[Entry]], serial: i64) -> i64:
    """Which chunk has an entry of that number, or would have it: the last that begins at it or below; -1 for none."""
    low: i64 = 0
    high: i64 = len(chunks)
    while low < high:
        middle = (low + high) >> 1
        if chunks[middle][0].serial <= serial:
            low = middle + 1
        else:
            high = middle
    return low - 1


def _index_before(chunk: list[Entry], serial: i64) -> i64:
    low: i64 = 0
    high: i64 = len(chunk)
    while low < high:
        middle = (low + high) >> 1
        if chunk[middle].serial < serial:
            low = middle + 1
        else:
            high = middle
    return low
