"""Names that a reader meets in two places."""

import ast
from pathlib import Path

from architecture.syntax import SOURCES, modules, nodes


def classes() -> list[tuple[Path, ast.ClassDef]]:
    found = []
    for path in modules(SOURCES):
        found += [(path.relative_to(SOURCES), node) for node in nodes(path) if isinstance(node, ast.ClassDef)]
    return found


def test_what_an_object_calls_itself_is_the_name_of_its_class() -> None:
    for path, owner in classes():
        for method in owner.body:
            if isinstance(method, ast.FunctionDef) and method.name == "__repr__":
                texts = [node.value for node in ast.walk(method) if isinstance(node, ast.Constant)]
                words = [text.split("(")[0] for text in texts if isinstance(text, str) and "(" in text]
                named = [word for word in words if word.isidentifier() and word[0].isupper()]
                assert all(name == owner.name for name in named), f"{path}:{method.lineno}: {named}"


# Class names that stand twice, each for one idea of another package or of the specification.
TWICE = {
    "Action": "what a client may want to do, and what was asked of a node",
    "Call": "a call of a function in a rule, and a request to a node",
    "Disconnect": "a packet of MQTT, and a message between borrower and leader",
    "MessageDatabase": "what two packages need of the database of messages",
    "Method": "the method of a HTTP request, and one that a node can be asked",
    "Node": "a node of Heliograph, and one of a HOCON tree",
    "Ping": "a packet of MQTT, and a message between borrower and leader",
    "Request": "what a storage reader is asked for, and a frame that asks a node",
    "Slice": "a slice of a value in a rule, and rows of an answer",
    "Turns": "the turns of channels, and those of groups",
    "Will": "the will in a CONNECT, and the one that waits for its time",
}


def test_a_class_name_stands_once_unless_there_is_a_reason() -> None:
    places: dict[str, list[Path]] = {}
    for path, owner in classes():
        if not owner.name.startswith("_"):
            places.setdefault(owner.name, []).append(path)
    twice = {name: paths for name, paths in places.items() if len(paths) > 1}
    assert twice.keys() <= TWICE.keys(), twice
