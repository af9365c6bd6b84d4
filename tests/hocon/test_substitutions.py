"""`${path}` and `${?path}`: what they find, what they leave out, and what they must not go round in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.hocon.values import Plain
from hocon.reading import error_of, value_of
from support.cases import cases


@cases(
    ("text", "value"),
    [
        ("a = 1, b = ${a}", {"a": 1, "b": 1}),
        ("b = ${a}, a = 1", {"a": 1, "b": 1}),
        ("b = ${a}, a = 1, a = 2", {"a": 2, "b": 2}),
        ("b = ${a.x}, a = {x = 1}, a {x = 2}", {"a": {"x": 2}, "b": 2}),
        ("b = ${a}, a {x = 1}, a {y = 2}", {"a": {"x": 1, "y": 2}, "b": {"x": 1, "y": 2}}),
        ("b = ${a}, a = [1], a.1 = 2, a.2 = 3", {"a": [2, 3], "b": [2, 3]}),
        ("b = ${a}, a = null", {"a": None, "b": None}),
        ("b = ${?a}, a = null", {"a": None, "b": None}),
        ("b = ${tls..port}, tls.port = 1", {"tls": {"port": 1}, "b": 1}),
        ('b = "${a}", a = 1', {"b": "${a}", "a": 1}),
        ('s = x, b = ${s}"-"${s}', {"s": "x", "b": "x-x"}),
        ("l = [1], b = ${l}[2]${l}", {"l": [1], "b": [1, 2, 1]}),
        ("o {x = 1}, b = ${o}{y = 2}", {"o": {"x": 1}, "b": {"x": 1, "y": 2}}),
        ("o {x = 1}, b = ${o}\n{x = 2}", {"o": {"x": 1}, "b": {"x": 2}}),
        ("b = [${a}, ${a} ${a}], a = x", {"b": ["x", "xx"], "a": "x"}),
        ("a = ${b}, b = ${c}, c = {x = [1]}", {"a": {"x": [1]}, "b": {"x": [1]}, "c": {"x": [1]}}),
        ("a.b = ${c}, c {x = 1}, d = ${a.b.x}", {"a": {"b": {"x": 1}}, "c": {"x": 1}, "d": 1}),
        ("a = ${c}, c {x = 1}, a {x = 2}, d = ${a.x}", {"a": {"x": 2}, "c": {"x": 1}, "d": 2}),
        ("a = {x = 2}, a = ${c}, c {x = 1}, d = ${a.x}", {"a": {"x": 1}, "c": {"x": 1}, "d": 1}),
        ("a {x = 2}, a = ${c}, c = 5, a {y = 1}, d = ${a.y}", {"a": {"y": 1}, "c": 5, "d": 1}),
        ('b = ${a.2}, a {"2" = x}', {"a": {"2": "x"}, "b": "x"}),
        ("o = {a = 1, b = ${o.a}}", {"o": {"a": 1, "b": 1}}),
        ("o = {a = 1, b = ${o.a}}, o.a = 2", {"o": {"a": 2, "b": 2}}),
        ("a = ${b}{x = ${a.y}}, b {y = 1}", {"a": {"y": 1, "x": 1}, "b": {"y": 1}}),
    ],
)
def test_a_substitution_means_the_final_value(text: str, value: Plain) -> None:
    assert value_of(text) == value


@cases(
    ("text", "value"),
    [
        ("a = ${?x}", {}),
        ("a = 1, a = ${?x}", {"a": 1}),
        ("a = [${?x}, 1, ${?x}]", {"a": [1]}),
        ("a = b${?x}c", {"a": "bc"}),
        ("a = [1]${?x}", {"a": [1]}),
        ("a = {b = ${?x}}", {"a": {}}),
        ("a = ${?x}${?y}", {}),
        ("n = 2, a = ${n}${?x}", {"n": 2, "a": 2}),
        ("x = ${?no}, y = ${x}", {}),
        ("x = ${?no}, y = [${x}, 1], z = a${x}", {"y": [1], "z": "a"}),
        ("x = ${?no}, y = ${x}, z = ${y}", {}),
        ("x = ${?x}, y = ${x}", {}),
    ],
)
def test_what_is_not_defined_drops_out(text: str, value: Plain) -> None:
    assert value_of(text) == value


@cases(
    ("text", "value"),
    [
        ('path = a, path = ${path}":/opt"', {"path": "a:/opt"}),
        ("path = ${?path}x", {"path": "x"}),
        ("a = [1], a = ${a}[2], a = ${a}[3]", {"a": [1, 2, 3]}),
        ("a = [1], a = [0]${a}", {"a": [0, 1]}),
        ("a = 1, a = [${a}, 2]", {"a": [1, 2]}),
        ("a {x = 1}, a = ${a}{y = 2}, a = ${a}{z = 3}", {"a": {"x": 1, "y": 2, "z": 3}}),
        ("a {b = s}, a.b = ${a.b}x", {"a": {"b": "sx"}}),
        ("a {b = s, b = ${a.b}x}", {"a": {"b": "sx"}}),
        ("a = ${a}x, a = b", {"a": "b"}),
        ("a = [1], a = ${a}[2], a.2 = 9", {"a": [1, 9]}),
        ("a {b = s}, a.b = ${a.b}x, a = 5", {"a": 5}),
        ("x = ${y}, y = p, y = ${x}q", {"x": "p", "y": "pq"}),
        ("y = p, y = ${x}q, x = ${y}", {"x": "p", "y": "pq"}),
        ("x = ${y}, y = p, y = ${x}q, z = ${y}", {"x": "p", "y": "pq", "z": "pq"}),
        ("a = ${?b}, b = ${?a}", {}),
        ("a = ${?b}x, b = ${?a}y", {"a": "x", "b": "y"}),
        ("o {j = 1}, o = {k = ${o}}", {"o": {"j": 1, "k": {"j": 1}}}),
        ("o.k = ${o}, o.j = 1", {"o": {"j": 1, "k": {"j": 1}}}),
        ("a = 1, a = ${b}, b = ${a}", {"a": 1, "b": 1}),
    ],
)
def test_a_value_that_extends_itself(text: str, value: Plain) -> None:
    assert value_of(text) == value


@cases(
    ("text", "lines"),
    [
        ("a = 1\nb = ${x}", [2]),
        ("b = ${x}\nc = 1\nd = [${y.z},\n${x}]\ne = ${?no}", [1, 3, 4]),
        ("a = ${a}", [1]),
        ("a = ${b}\nb = ${a}", [1, 2]),
        ("a = ${b}\nb = ${c}\nc = ${a}", [1, 2, 3]),
        ("o = {k = ${o}}", [1]),
        ("o = {k = ${o}, j = 1}", [1]),
        ("o {a {k = ${o.a}}}", [1]),
        ("l = [1]\nb = ${l.1}", [2]),
        ("l = [1]\nl.1 = 2\nb = ${l.1}", [3]),
        ("a = 1\nb = ${a.x}", [2]),
        ("o {k = 1}\no = 5\nb = ${o.k}", [3]),
        ("b = ${x}\nb = 1", [1]),  # also where a later definition replaces it
        ('"a.b" = 1\nc = ${a.b}', [2]),
    ],
)
def test_unresolved_substitutions_are_all_listed_with_their_lines(text: str, lines: list[int]) -> None:
    error = error_of(text)
    assert error.line == lines[0]
    assert error.message.startswith("unresolved substitution: ")
    assert error.message.count("(main.conf:") == len(lines)
    assert all(f"(main.conf:{line})" in error.message for line in lines)


def test_unresolved_substitutions_come_before_concatenations_that_cannot_be() -> None:
    assert error_of("a = [1] x\nb = ${a}\nc = ${no}").line == 3


def test_a_wrong_concatenation_is_reported_at_its_own_line_even_when_it_is_only_used() -> None:
    assert error_of("b = ${a}\n\na = [1] x").line == 3


def test_the_environment_is_no_source_of_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELIOGRAPH_TEST_X", "1")
    assert value_of("a = ${?HELIOGRAPH_TEST_X}") == {}


_FIELDS = st.lists(
    st.tuples(st.integers(0, 7), st.integers(0, 99) | st.integers(1, 4).map(lambda step: f"+{step}")), max_size=16
)


@given(_FIELDS, st.integers(0, 16))
def test_values_agree_with_a_naive_reading(fields: list[tuple[int, int | str]], cut: int) -> None:
    """Each field is a number or refers to a key further on; the last definition of a key counts."""
    lines = [
        f"k{key} = {value}" if isinstance(value, int) else f"k{key} = ${{?k{key + int(value)}}}"
        for key, value in fields
    ]
    naive: dict[str, Plain] = {}
    for key in range(7, -1, -1):
        for number, value in fields:
            final = value if isinstance(value, int) else naive.get(f"k{number + int(value)}")
            if number == key and final is not None:
                naive[f"k{key}"] = final
    assert value_of("\n".join(lines)) == naive
    included: dict[str, str | bytes] = {"part": "\n".join(lines[cut:])}
    assert value_of("\n".join([*lines[:cut], "include part"]), included) == naive
    nested: dict[str, str | bytes] = {"all": "\n".join(lines)}
    assert value_of("k0 = 1, in {include all}, l = [{include all}]", nested) == {"k0": 1, "in": naive, "l": [naive]}
