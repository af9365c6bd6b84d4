"""The topic trie: wildcard filters by their levels, so that a topic finds its filters without asking each one.

A node has a child per literal level, one for `+`, and the entry of a `#` that hangs below it. A match walks the
literal child and the `+` child of each level; its cost depends on how many filters match or nearly match, not on how
many exist. Filters without wildcards are not here: the router keeps them in a dictionary.
"""

from mypy_extensions import i64

from heliograph.broker.subscription import Subscription


class FilterEntry:
    """All subscriptions of one filter; owned by the router, referred to by routes while it has a subscriber."""

    def __init__(self, topic_filter: str) -> None:
        self.topic_filter = topic_filter
        self.subscriptions: list[Subscription] = []

    def add(self, subscription: Subscription) -> None:
        """List a subscription."""
        subscription.slot = len(self.subscriptions)
        self.subscriptions.append(subscription)

    def remove(self, subscription: Subscription) -> None:
        """Take a subscription out; the last one moves into its place."""
        last = self.subscriptions.pop()
        if last is not subscription:
            self.subscriptions[subscription.slot] = last
            last.slot = subscription.slot
        subscription.slot = -1


class TrieNode:
    """One level of the trie."""

    def __init__(self) -> None:
        self.children: dict[str, TrieNode] | None = None
        self.plus: TrieNode | None = None
        self.entry: FilterEntry | None = None  # a filter ends here
        self.hash_entry: FilterEntry | None = None  # a filter ends here with `#`

    def is_empty(self) -> bool:
        """Whether nothing hangs on this node any more."""
        return not self.children and self.plus is None and self.entry is None and self.hash_entry is None


class TopicTrie:
    """The wildcard filters of a node, and which of them a topic matches."""

    def __init__(self) -> None:
        self._root = TrieNode()
        self.visited: i64 = 0  # nodes that matches have looked at so far

    def insert(self, entry: FilterEntry) -> None:
        """Add a filter that is not in the trie."""
        node = self._root
        for level in entry.topic_filter.split("/"):
            if level == "#":
                node.hash_entry = entry
                return
            node = _child_for(node, level)
        node.entry = entry

    def remove(self, topic_filter: str) -> None:
        """Take a filter out, and the nodes that only it needed."""
        path: list[TrieNode] = [self._root]
        levels = topic_filter.split("/")
        for level in levels:
            if level == "#":
                break
            child = _find_child(path[-1], level)
            if child is None:
                return
            path.append(child)
        if levels[-1] == "#":
            path[-1].hash_entry = None
        else:
            path[-1].entry = None
        for depth in range(len(path) - 1, 0, -1):
            if not path[depth].is_empty():
                return
            _drop_child(path[depth - 1], levels[depth - 1])

    def match(self, topic: str) -> list[FilterEntry]:
        """The entries of all filters that match a topic name."""
        found: list[FilterEntry] = []
        levels = topic.split("/")
        root = self._root
        if levels[0].startswith("$"):  # wildcards at the first level do not match it [MQTT-4.7.2-1]
            if root.children is not None:
                child = root.children.get(levels[0])
                if child is not None:
                    self._collect(child, levels, 1, found)
        else:
            self._collect(root, levels, 0, found)
        return found

    def _collect(self, node: TrieNode, levels: list[str], depth: int, found: list[FilterEntry]) -> None:
        # Depth is bounded by the most levels a filter may have, so recursion is.
        self.visited += 1
        if node.hash_entry is not None:
            found.append(node.hash_entry)
        if depth == len(levels):
            if node.entry is not None:
                found.append(node.entry)
            return
        if node.children is not None:
            child = node.children.get(levels[depth])
            if child is not None:
                self._collect(child, levels, depth + 1, found)
        if node.plus is not None:
            self._collect(node.plus, levels, depth + 1, found)


def _child_for(node: TrieNode, level: str) -> TrieNode:
    child = _find_child(node, level)
    if child is None:
        child = TrieNode()
        if level == "+":
            node.plus = child
        elif node.children is None:
            node.children = {level: child}
        else:
            node.children[level] = child
    return child


def _find_child(node: TrieNode, level: str) -> TrieNode | None:
    if level == "+":
        return node.plus
    if node.children is None:
        return None
    return node.children.get(level)


def _drop_child(node: TrieNode, level: str) -> None:
    if level == "+":
        node.plus = None
    elif node.children is not None:
        del node.children[level]
        if not node.children:
            node.children = None
