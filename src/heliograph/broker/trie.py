"""The topic trie: wildcard filters by their levels, so that a topic finds its filters without asking each one.

A node has a branch per literal level, one for `+`, and the entry of a `#` that hangs below it. A match walks the
literal branch and the `+` branch of each level; its cost depends on how many filters match or nearly match, not on how
many exist. Filters without wildcards are not here: the router keeps them in a dictionary.

Levels that lead nowhere else are not nodes of their own. A branch with one filter is that filter's entry, which keeps
its remaining levels as text; levels that all filters below a node have in common are the node's `path`. So every node
but the root parts at least two filters, there are fewer nodes than filters, and a filter costs memory by its length,
whatever filters stand beside it: 128 levels of nodes cost 40 kB. Nothing here recurses; how many levels a filter may
have is the operator's choice.
"""

from typing import Final

from mypy_extensions import i32, i64

from heliograph.broker.subscription import FilterEntry

_NO_LIMIT: Final = 1 << 40
_DOUBLINGS_MAX: Final = 16


class TrieNode:
    """A place where filters part; `path` leads to it from the parent's branch, None for no level ("" is one level)."""

    def __init__(self, path: str | None) -> None:
        self.path = path
        self.children: dict[str, TrieNode | FilterEntry] | None = None
        self.plus: TrieNode | FilterEntry | None = None
        self.entry: FilterEntry | None = None  # a filter ends here
        self.hash_entry: FilterEntry | None = None  # a filter ends here with `#`

    def is_empty(self) -> bool:
        return not self.children and self.plus is None and self.entry is None and self.hash_entry is None

    def branch(self, level: str) -> "TrieNode | FilterEntry | None":
        """What hangs on the branch for a level of a filter."""
        if level == "+":
            return self.plus
        return None if self.children is None else self.children.get(level)

    def set_branch(self, level: str, below: "TrieNode | FilterEntry") -> None:
        if level == "+":
            self.plus = below
        elif self.children is None:
            self.children = {level: below}
        else:
            self.children[level] = below

    def drop_branch(self, level: str) -> None:
        if level == "+":
            self.plus = None
        elif self.children is not None:
            del self.children[level]
            if not self.children:
                self.children = None

    def hang(self, entry: FilterEntry, at: i64) -> None:
        """Hang up the entry of a filter that leads here with its levels before the character `at`."""
        topic_filter = entry.topic_filter
        if at > len(topic_filter):
            self.entry = entry
            return
        level = _level_at(topic_filter, at)
        if level == "#":
            self.hash_entry = entry
            return
        entry.tail_at = i32(at + len(level) + 1)
        self.set_branch(level, entry)


class TrieWalk:
    """A search for the filters that match a topic name, and how far it is; see `TopicTrie.advance`."""

    def __init__(self, topic: str) -> None:
        self.levels = topic.split("/")
        self.found: list[FilterEntry] = []
        self.waiting: list[tuple[TrieNode | FilterEntry, i64]] = []  # branches, and the levels that lead below them
        self.changes: i64 = -1  # those of the trie when it began; -1 if it has not
        self.starts_count: i64 = -1  # how often it had to start again


class TopicTrie:
    """The wildcard filters of a node, and which of them a topic matches; owned by the router."""

    def __init__(self) -> None:
        self.root = TrieNode(None)
        self.count: i64 = 0  # filters
        self.changes: i64 = 0  # how often a filter appeared or disappeared
        self.visited: i64 = 0  # levels that matches have looked at so far

    def obtain(self, topic_filter: str) -> FilterEntry:
        levels = topic_filter.split("/")
        node = self.root
        depth: i64 = 0  # levels that lead to the node,
        at: i64 = 0  # and the characters that they are in the filter
        while depth < len(levels) and levels[depth] != "#":
            level = levels[depth]
            below = node.branch(level)
            if below is None:
                return self._new(node, topic_filter, at)
            depth += 1
            at += len(level) + 1
            if isinstance(below, FilterEntry):
                if below.topic_filter == topic_filter:
                    return below
                node = _part_entry(node, level, below, levels, depth)
            else:
                node = _part_node(node, level, below, levels, depth)
            if node.path is not None:
                depth += node.path.count("/") + 1
                at += len(node.path) + 1
        held = node.entry if depth == len(levels) else node.hash_entry
        return self._new(node, topic_filter, at) if held is None else held

    def find(self, topic_filter: str) -> FilterEntry | None:
        levels = topic_filter.split("/")
        node = self.root
        found: FilterEntry | None = None
        depth: i64 = 0
        while depth < len(levels) and levels[depth] != "#":
            below = node.branch(levels[depth])
            if not isinstance(below, TrieNode):
                found = below
                break
            node = below
            depth += 1
            if node.path is not None:
                depth = _follow(node.path, 0, levels, depth)
                if depth < 0:
                    return None
        else:
            found = node.entry if depth == len(levels) else node.hash_entry
        # What led here may be another filter's: a path with `+` was followed by any level, an entry keeps its own.
        return found if found is not None and found.topic_filter == topic_filter else None

    def remove(self, topic_filter: str) -> None:
        """Take out a filter that is in the trie, and the node that only it needed."""
        levels = topic_filter.split("/")
        parent: TrieNode | None = None
        parting = ""  # the branch of the parent that the node hangs on,
        parting_at: i64 = 0  # and where the filter goes on behind it
        node = self.root
        depth: i64 = 0
        at: i64 = 0
        while depth < len(levels) and levels[depth] != "#":
            level = levels[depth]
            below = node.branch(level)
            if not isinstance(below, TrieNode):
                node.drop_branch(level)
                break
            parent, parting, node = node, level, below
            depth += 1
            at += len(level) + 1
            parting_at = at
            if node.path is not None:
                depth += node.path.count("/") + 1
                at += len(node.path) + 1
        else:
            if depth == len(levels):
                node.entry = None
            else:
                node.hash_entry = None
        self.count -= 1
        self.changes += 1
        if parent is not None:
            _join(parent, parting, parting_at, node)

    def match(self, topic: str) -> list[FilterEntry]:
        """The entries of all filters that match a topic name."""
        walk = TrieWalk(topic)
        self.advance(walk, _NO_LIMIT)
        return walk.found

    def advance(self, walk: TrieWalk, visited_max: i64) -> bool:
        """Go on with a search until so many more levels were looked at, or to its end: whether that is reached.

        It starts again where filters have appeared or disappeared meanwhile: branches hang elsewhere then. Each time it
        may look at twice as much, so that it ends although clients keep subscribing.
        """
        waiting, levels, found = walk.waiting, walk.levels, walk.found
        depth: i64 = 0
        below: TrieNode | FilterEntry | None = None
        if walk.changes != self.changes:
            walk.changes = self.changes
            walk.starts_count += 1
            waiting.clear()
            found.clear()
            below = self.root
            # wildcards at the first level do not match it [MQTT-4.7.2-1] 3.1.1 [MQTT-4.7.2-1]
            if levels[0].startswith("$"):
                below = self.root.branch(levels[0])
                depth = 1
        end = self.visited + (visited_max << min(walk.starts_count, _DOUBLINGS_MAX))
        while True:
            if below is None:
                if not waiting:
                    return True
                if self.visited >= end:
                    return False
                below, depth = waiting.pop()
            self.visited += 1
            if isinstance(below, FilterEntry):
                if self._entry_matches(below, levels, depth):
                    found.append(below)
                below = None
                continue
            node = below
            below = None
            if node.path is not None:
                depth = self._walk(node.path, 0, levels, depth)
                if depth < 0:
                    continue
            if node.hash_entry is not None:
                found.append(node.hash_entry)
            if depth == len(levels):
                if node.entry is not None:
                    found.append(node.entry)
                continue
            if node.children is not None:
                below = node.children.get(levels[depth])
            depth += 1
            if below is None:
                below = node.plus
            elif node.plus is not None:
                waiting.append((node.plus, depth))

    def _new(self, node: TrieNode, topic_filter: str, at: i64) -> FilterEntry:
        entry = FilterEntry(topic_filter)
        node.hang(entry, at)
        self.count += 1
        self.changes += 1
        return entry

    def _entry_matches(self, entry: FilterEntry, levels: list[str], depth: i64) -> bool:
        tail_at = i64(entry.tail_at)
        if tail_at <= len(entry.topic_filter):
            depth = self._walk(entry.topic_filter, tail_at, levels, depth)
        return depth == len(levels)

    def _walk(self, text: str, at: i64, levels: list[str], depth: i64) -> i64:
        reached = _follow(text, at, levels, depth)
        self.visited += (reached if reached >= 0 else -reached) - depth
        return reached


def filter_matches(topic_filter: str, levels: list[str]) -> bool:
    if levels[0].startswith("$") and topic_filter.startswith(("+", "#")):  # [MQTT-4.7.2-1] 3.1.1 [MQTT-4.7.2-1]
        return False
    return _follow(topic_filter, 0, levels, 0) == len(levels)


def _follow(text: str, at: i64, levels: list[str], depth: i64) -> i64:
    """Follow the levels of a filter from the character `at`, of a topic from `depth`: how deep they lead.

    All of a topic's levels if `#` comes; if the filter asks for another level or for more of them, the negative of how
    many levels were looked at.
    """
    while True:
        slash: i64 = text.find("/", at)
        level = text[at:] if slash < 0 else text[at:slash]
        if level == "#":
            return len(levels)
        if depth == len(levels) or (level != "+" and level != levels[depth]):
            return -1 - depth
        depth += 1
        if slash < 0:
            return depth
        at = slash + 1


def _level_at(topic_filter: str, at: i64) -> str:
    slash: i64 = topic_filter.find("/", at)
    return topic_filter[at:] if slash < 0 else topic_filter[at:slash]


def _part_entry(node: TrieNode, level: str, held: FilterEntry, levels: list[str], depth: i64) -> TrieNode:
    """Make a node where a filter's remaining levels part from those of a new one; it takes the filter's place."""
    tail_at = i64(held.tail_at)
    tail = held.topic_filter[tail_at:].split("/") if tail_at <= len(held.topic_filter) else []
    path = _path(tail[: _shared_count(tail, levels, depth)])
    fork = TrieNode(path)
    fork.hang(held, tail_at if path is None else tail_at + len(path) + 1)
    node.set_branch(level, fork)
    return fork


def _part_node(node: TrieNode, level: str, held: TrieNode, levels: list[str], depth: i64) -> TrieNode:
    """Make a node where a node's path parts from a new filter, unless the filter follows all of it."""
    if held.path is None:
        return held
    way = held.path.split("/")
    shared = _shared_count(way, levels, depth)
    if shared == len(way):
        return held
    fork = TrieNode(_path(way[:shared]))
    held.path = _path(way[shared + 1 :])
    fork.set_branch(way[shared], held)
    node.set_branch(level, fork)
    return fork


def _join(parent: TrieNode, parting: str, parting_at: i64, node: TrieNode) -> None:
    """Let a node's only filter or branch take its place: nothing parts there any more."""
    children_count = 0 if node.children is None else len(node.children)
    if children_count + (node.plus is not None) + (node.entry is not None) + (node.hash_entry is not None) != 1:
        return
    level = "+"
    below: TrieNode | FilterEntry | None = node.plus or node.entry or node.hash_entry
    if node.children is not None:
        level, below = next(iter(node.children.items()))
    if isinstance(below, TrieNode):
        below.path = _path([part for part in (node.path, level, below.path) if part is not None])
    elif below is not None:
        below.tail_at = i32(parting_at)
    if below is not None:
        parent.set_branch(parting, below)


def _shared_count(way: list[str], levels: list[str], depth: i64) -> i64:
    """How many levels of `way` a filter has too, from `depth` on."""
    count: i64 = 0
    while count < len(way) and depth + count < len(levels) and way[count] == levels[depth + count]:
        count += 1
    return count


def _path(levels: list[str]) -> str | None:
    return "/".join(levels) if levels else None
