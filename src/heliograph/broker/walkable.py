"""Lists that change while they are walked through: a step costs the same however long the list is.

A list of a million clients is told in slices, and between two of them clients come and go. A copy of it would take
milliseconds, and a dictionary cannot be entered in its middle. So everything that is listed knows its place in a dense
list, and a walk goes from its end to its beginning. What joins stands behind every walk. What leaves is replaced by an
entry that every walk sees on the same side as before: where a walk has yet to pass the place, by the entry that it
would meet next, whose place then goes to one that it has met. So each walk meets what was there the whole time, and
nothing twice.
"""

from typing import Final, Generic, TypeVar

from mypy_extensions import i32, i64, mypyc_attr

_NO_PLACE: Final = -1


@mypyc_attr(allow_interpreted_subclasses=True)
class Listed:
    """What may stand in one list.

    Attributes:
        place: Where it stands there; the list's. -1 while it stands in none.
    """

    def __init__(self) -> None:
        self.place: i32 = _NO_PLACE


Entry = TypeVar("Entry", bound=Listed)


class ListWalk(Generic[Entry]):
    """A walk through a list; whoever began it goes on until it is over, or ends it.

    Attributes:
        left: How many entries are yet to come.
    """

    def __init__(self, listed: "WalkableList[Entry]", count: i64) -> None:
        self._listed = listed
        self.left: i64 = count

    def take(self, count_max: i64) -> list[Entry]:
        """The next entries, so many at the most; none at the end."""
        taken: list[Entry] = []
        entries = self._listed.entries
        while self.left > 0 and count_max > 0:
            self.left -= 1
            count_max -= 1
            taken.append(entries[self.left])
        if self.left == 0:
            self.end()
        return taken

    def end(self) -> None:
        """Go no further; harmless if it is over."""
        self.left = 0
        self._listed.forget(self)


class WalkableList(Generic[Entry]):
    """Everything of one kind; owned by what adds and removes it.

    Attributes:
        entries: All of it, in no order; for its walks.
    """

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._walks: list[ListWalk[Entry]] = []

    def __len__(self) -> int:
        return len(self.entries)

    def add(self, entry: Entry) -> None:
        """List something that stands in no list; walks under way pass it over."""
        entry.place = i32(len(self.entries))
        self.entries.append(entry)

    def replace(self, entry: Entry, other: Entry) -> None:
        """Let something take the place of something that is listed."""
        other.place = entry.place
        entry.place = _NO_PLACE
        self.entries[other.place] = other

    def remove(self, entry: Entry) -> None:
        """Take out what is listed."""
        entries = self.entries
        place = i64(entry.place)
        entry.place = _NO_PLACE
        if self._walks:
            place = self._close_gap(place)
        last = entries.pop()
        if place < len(entries):
            entries[place] = last
            last.place = i32(place)

    def walk(self) -> ListWalk[Entry]:
        """Begin a walk through what is listed now."""
        walk = ListWalk(self, i64(len(self.entries)))
        if self.entries:
            self._walks.append(walk)
        return walk

    def forget(self, walk: ListWalk[Entry]) -> None:
        """A walk is over."""
        if walk in self._walks:
            self._walks.remove(walk)

    def _close_gap(self, place: i64) -> i64:
        """Move the gap at a place behind every walk that has yet to pass it: where it is then."""
        self._walks.sort(key=_left_of)
        for walk in self._walks:
            if place < walk.left:
                walk.left -= 1
                if place != walk.left:
                    moved = self.entries[walk.left]
                    self.entries[place] = moved
                    moved.place = i32(place)
                    place = walk.left
        return place


def _left_of(walk: ListWalk[Entry]) -> int:
    return int(walk.left)
