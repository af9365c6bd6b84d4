"""Several definitions of one path: merging, replacing, editing lists by index, `+=`."""

from heliograph.hocon.values import Plain
from hocon.reading import error_of, value_of
from support.cases import cases


@cases(
    ("text", "value"),
    [
        ("a = 1, a = 2", {"a": 2}),
        ("a {x = 1}, a {y = 2}", {"a": {"x": 1, "y": 2}}),
        ("a.b.c = 1, a.b.d = 2, a {b {c = 3}}", {"a": {"b": {"c": 3, "d": 2}}}),
        ("a = [1], a = [2]", {"a": [2]}),
        ("a {x = 1}, a = 5, a {y = 2}", {"a": {"y": 2}}),
        ("a {x = 1}, a = null, a {y = 2}", {"a": {"y": 2}}),
        ("a {x = 1}, a = null", {"a": None}),
        ("a {x = 1}, a = [1], a {y = 2}", {"a": {"y": 2}}),
        ("a = 1, a.b = 2", {"a": {"b": 2}}),
        ('"a.b" = 1, a.b = 2', {"a.b": 1, "a": {"b": 2}}),
        ("a {x {p = 1}}, a {x = 5}, a {x {q = 2}}", {"a": {"x": {"q": 2}}}),
    ],
)
def test_later_definitions(text: str, value: Plain) -> None:
    assert value_of(text) == value


def test_the_order_of_keys_has_no_meaning() -> None:
    assert value_of("a.x = 1, b = 2, a.y = 3") == value_of("b = 2, a.y = 3, a.x = 1")


@cases(
    ("text", "value"),
    [
        ("l = [1, 2], l.1 = 9", [9, 2]),
        ("l = [1, 2], l.3 = 9", [1, 2, 9]),
        ('l = [1, 2], l {"1" = a}', ["a", 2]),
        ("l = [1], l.02 = 9", [1, 9]),
        ('l = [1], l {"+1" = 9}', [9]),
        ("l = [], l.1 = a, l.2 = b", ["a", "b"]),
        ('l = [], l {"2" = b, "1" = a}', ["a", "b"]),  # one object: numeric order
        ("l = [], l {" + ", ".join(f'"{index}" = {index}' for index in range(11, 0, -1)) + "}", list(range(1, 12))),
        ("l = [{h = n1, p = 1}], l.1.p = 2", [{"h": "n1", "p": 2}]),
        ("l = [{h = n1}], l.2 = {h = n2}", [{"h": "n1"}, {"h": "n2"}]),
        ("l = [{h = n1}], l.1 = x", ["x"]),
        ("l = [[1, 2]], l.1.2 = 9", [[1, 9]]),
        ("l = [1, 2], l.1 = 8, l = [3]", [3]),
        ("l = [1], l.x = 2", {"x": 2}),
        ('l = [1], l {"1" = 2, x = 3}', {"1": 2, "x": 3}),
        ("l = [1], l.1 = 2, l.x = 3, l.1 = 4", {"x": 3, "1": 4}),
        ("l.1 = a, l.2 = b", {"1": "a", "2": "b"}),
        ("l = 5, l.1 = a", {"1": "a"}),
        ("o = {l = [1]}, o = {l = {}}", None),
    ],
)
def test_index_keys(text: str, value: Plain) -> None:
    document = value_of(text)
    assert isinstance(document, dict)
    if value is not None:
        assert document["l"] == value


@cases(
    ("text", "line"),
    [
        ("l = [1]\nl.0 = 2", 2),
        ("l = [1]\n\nl.3 = 2", 3),
        ('l = [1]\nl {"-1" = 2}', 2),
        ("l = []\nl.2 = b\nl.1 = a", 2),  # separate definitions: in the order of the document
        ("l = [1]\nl.5 = 2\nl = [3]", 2),  # even if it is replaced afterwards
        ("l = [1]\nl.99999999999999999999999999 = 2", 2),
        ('o {l = [1]}\no {\n l {\n  "9" = 2\n }\n}', 4),
        ("k = {l = [1]} {l.3 = 1}", 1),
    ],
)
def test_an_index_outside_the_list(text: str, line: int) -> None:
    error = error_of(text)
    assert error.line == line
    assert "outside the list" in error.message
    assert "valid are 1 to" in error.message


@cases(
    ("text", "value"),
    [
        ("k += 1", {"k": [1]}),
        ("k = [1], k += 2, k += 3", {"k": [1, 2, 3]}),
        ("k = [1], k += [2]", {"k": [1, [2]]}),
        ("k += a b", {"k": ["ab"]}),
        ("k += {x = 1}{y = 2}", {"k": [{"x": 1, "y": 2}]}),
        ("k += null", {"k": [None]}),
        ("a.b = [1], a.b += 2", {"a": {"b": [1, 2]}}),
        ("a {b = [1], b += 2}", {"a": {"b": [1, 2]}}),
        ("a {b = [1]}, a {b += 2}", {"a": {"b": [1, 2]}}),
        ('"a.b" = [1], "a.b" += 2', {"a.b": [1, 2]}),
        ("k = [1, 2], k.1 = 9, k += 3", {"k": [9, 2, 3]}),
        ("k = [1], k += 2, k.2 = 9", {"k": [1, 9]}),
        ("k = [1], k += 2, k = [7]", {"k": [7]}),
        ("k += 1, k = [7]", {"k": [7]}),
        ("k += 1, k = 5", {"k": 5}),
        ("l = [{k = [1], k += 2}]", {"l": [{"k": [1, 2]}]}),
        ("l = [{k += 1}\n{k += 2}]", {"l": [{"k": [1]}, {"k": [2]}]}),
        ("k = ${x}, k += 3, x = [1, 2]", {"k": [1, 2, 3], "x": [1, 2]}),
        ("k += ${x}, x = 5", {"k": [5], "x": 5}),
        ("k = [1], k += ${?no}", {"k": [1]}),
        ("k = [1], k += 2, z = ${k}", {"k": [1, 2], "z": [1, 2]}),
        ("k = [1], k += ${k}", {"k": [1, [1]]}),
        ("k = {x = 1}, k = [1], k += 2", {"k": [1, 2]}),
    ],
)
def test_appending(text: str, value: Plain) -> None:
    assert value_of(text) == value


@cases(
    ("before", "kind"),
    [
        ("k = 5", "a number"),
        ("k = x", "a string"),
        ("k {x = 1}", "an object"),
        ("k = null", "null"),
        ("k = true", "a boolean"),
    ],
)
def test_appending_to_something_else_is_an_error_at_that_line(before: str, kind: str) -> None:
    error = error_of(f"{before}\n\nk += 2")
    assert error.line == 3
    assert f"is {kind} (from main.conf:1)" in error.message


def test_appending_follows_included_files() -> None:
    assert value_of('k = [1], include "a", k += 3', {"a": "k += 2"}) == {"k": [1, 2, 3]}
    assert value_of("k += {include a}", {"a": "p = 1, q = ${p}"}) == {"k": [{"p": 1, "q": 1}]}
    assert value_of('g {k = [1], include "a"}', {"a": "k += 2"}) == {"g": {"k": [1, 2]}}
    assert value_of('l = [{k = [1], include "a"}]', {"a": "k += 2"}) == {"l": [{"k": [1, 2]}]}
