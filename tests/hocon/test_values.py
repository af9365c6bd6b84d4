"""Writing values out, and what a reader sees of a node."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from heliograph.hocon.document import parse_text
from heliograph.hocon.errors import SourcePosition
from heliograph.hocon.values import Node, Plain, to_json, to_plain
from hocon.reading import value_of
from support.cases import cases
from support.forms import examples


@cases("indent", [None, 0, 2, 4])
def test_json_is_laid_out_as_usual(indent: int | None) -> None:
    text = 'a = 1, b = [], c {}, d = [1, [2.0, {x = null, y = []}], {}], "k\\"ey" = "te\\nxt é", e {f {g = true}}'
    assert to_json(parse_text(text), indent) == json.dumps(value_of(text), indent=indent)


def test_the_empty_document_as_json() -> None:
    assert to_json(parse_text("")) == "{}"


def test_integers_of_any_size_and_floats_stay_apart_in_json() -> None:
    text = to_json(parse_text(f"a = {'7' * 5000}, b = 3.0, c = 0042, d = -{'1' * 5000}"), None)
    assert text == f'{{"a": {"7" * 5000}, "b": 3.0, "c": 42, "d": -{"1" * 5000}}}'


_SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
_PLAIN = st.recursive(_SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)


def node_of(value: Plain) -> Node:
    """A tree of nodes for plain values."""
    place = SourcePosition("made", 1)
    if isinstance(value, dict):
        return Node({key: node_of(child) for key, child in value.items()}, place)
    if isinstance(value, list):
        return Node([node_of(item) for item in value], place)
    return Node(value, place)


@settings(max_examples=examples(40))
@given(_PLAIN)
def test_json_and_plain_values_agree(value: Plain) -> None:
    node = node_of(value)
    assert to_plain(node) == value
    assert json.loads(to_json(node)) == value
    assert to_json(node, None) == json.dumps(value)


def test_a_node_tells_kind_and_place() -> None:
    root = parse_text("a = [1]\nb = x", name="main.conf")
    assert repr(root) == "Node(an object at main.conf:1)"
    assert isinstance(root.value, dict)
    assert [child.kind for child in root.value.values()] == ["a list", "a string"]
    assert root.value["b"].position == SourcePosition("main.conf", 2)
    assert repr(root.value["b"].position) == "SourcePosition('main.conf', 2)"
