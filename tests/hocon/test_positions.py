"""Where errors and values say that they stand."""

from heliograph.hocon.document import parse_text
from heliograph.hocon.files import MemoryFiles
from heliograph.hocon.values import Node
from hocon.reading import error_of
from support.cases import cases


@cases(
    ("text", "line"),
    [
        ("a = 1\n\nb = /", 3),
        ('a = 1\n\nb = "x', 3),
        ('\na = """x\n\n', 2),
        ("a = 1\nk w = 1", 2),
        ("a\n=\n3\napples", 4),
        ("a = {\n\n", 1),
        ("a = [1,\n2\n\n# end", 2),  # the last token, not the end of the file
        ("a =\n", 1),
        ("{a = 1\n}\n}", 3),
        ("a = 1\rb = /", 1),  # only LF counts
        ("a = 1\u2028b = /", 1),
        ("a = 1\r\nb = /", 2),
        ("a\n=\n${x}", 3),
        ("a\n=\n[1]\n\nx", 1),  # the key of the field
        ("l = [\n1,\n[1]\n\nx\n]", 3),  # the element
        ("l = [1,\n{a\n= [1] x}]", 2),
        ('l = [1]\n\nl {\n  "7"\n  =\n  2\n}', 4),
        ('\n\ninclude\nrequired("no")', 3),
        ('k =\n\n"\\u00"', 3),
    ],
)
def test_lines_of_errors(text: str, line: int) -> None:
    error = error_of(text)
    assert (error.file, error.line) == ("main.conf", line)


def test_an_error_reads_as_file_line_and_message() -> None:
    error = error_of("a = 1\nb = 'x'")
    assert str(error) == f"main.conf:2: {error.message}"


def at(root: Node, path: str) -> Node:
    """The node at a path of keys and indexes from 1."""
    for name in path.split("."):
        if isinstance(root.value, dict):
            root = root.value[name]
        else:
            assert isinstance(root.value, list)
            root = root.value[int(name) - 1]
    return root


_DOCUMENT = """\
a {
  x =
    1
}
a {y = 2}
b = [
  1,
  {k = v}
]
b.1 = 9
b.2.m = 8
c = ${a}
d = [${a.x},
  ${b}]
e =
  x
  y
f = ${a}{z = 3}
g = ${?no}5s
h += 1
h += 2
include "sub/g.conf"
"""


@cases(
    ("path", "position", "source"),
    [
        ("a", "main.conf:5", None),  # merged: the last definition
        ("a.x", "main.conf:2", None),  # its fields keep theirs
        ("a.y", "main.conf:5", None),
        ("b", "main.conf:6", None),  # an edited list keeps its own
        ("b.1", "main.conf:10", None),  # the edited element gets the edit's
        ("b.2", "main.conf:11", None),
        ("b.2.k", "main.conf:8", None),
        ("b.2.m", "main.conf:11", None),
        ("c", "main.conf:12", "main.conf:5"),  # after a substitution: the key, and the source
        ("c.x", "main.conf:2", None),
        ("d.1", "main.conf:13", "main.conf:2"),
        ("d.2", "main.conf:14", "main.conf:6"),
        ("e", "main.conf:15", None),
        ("f", "main.conf:18", None),
        ("f.z", "main.conf:18", None),
        ("g", "main.conf:19", None),
        ("h", "main.conf:21", None),
        ("h.1", "main.conf:20", None),
        ("i", "sub/g.conf:2", None),
        ("j", "sub/g.conf:3", "main.conf:2"),
    ],
)
def test_positions_of_values(path: str, position: str, source: str | None) -> None:
    root = parse_text(_DOCUMENT, name="main.conf", files=MemoryFiles({"sub/g.conf": "\ni = 1\nj = ${a.x}"}))
    node = at(root, path)
    assert str(node.position) == position
    assert (None if node.source is None else str(node.source)) == source
