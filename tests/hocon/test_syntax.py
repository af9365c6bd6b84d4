"""Documents, keys, separators, arrays, concatenation: what fits together and what does not."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from heliograph.hocon.values import Plain
from hocon.reading import error_of, field_of, value_of
from support.cases import cases
from support.forms import examples


@cases(
    ("text", "value"),
    [
        ("a = 1", {"a": 1}),
        ("{a = 1}", {"a": 1}),
        ("{a : 1, b = 2,}", {"a": 1, "b": 2}),
        ("a { b { c = 1 } }", {"a": {"b": {"c": 1}}}),
        ("a = { b : 1 }", {"a": {"b": 1}}),
        ("a\n=\n1\n,\nb\n:\n2", {"a": 1, "b": 2}),
        ("mode = fast zone = eu", {"mode": "fast", "zone": "eu"}),
        ("a = b c = d", {"a": "b", "c": "d"}),
        ("a = 1 b = 2 c {d = 3} e = 4", {"a": 1, "b": 2, "c": {"d": 3}, "e": 4}),
        ("a = x b { c = 1 }", {"a": "x", "b": {"c": 1}}),
        ("a = 1,", {"a": 1}),  # a trailing comma is fine without braces too
        ("a = {x = 1} foo {y = 2}", {"a": {"x": 1}, "foo": {"y": 2}}),
    ],
)
def test_documents_and_fields(text: str, value: Plain) -> None:
    assert value_of(text) == value


@cases(
    "text",
    [
        "[1]",
        "5",
        '"text"',
        "a",
        "{a = 1} b = 2",
        "{a = 1},",
        "{a = 1}{b = 2}",
        "{",
        "}",
        "{a = 1",
        "a = ",
        "= 1",
        "a = [1",
        "a = 1,,b = 2",
        ",a = 1",
        "{,}",
        "a = {,}",
        "k := 1",
        "k == 1",
        "k = = 1",
        "k : : 1",
        "a = [,]",
        "a = [,1]",
        "a = [1,,2]",
        "a = 1 2",
        "a = foo {x = 1}",
        "a = [foo {x = 1}]",
        "a = [b = 1]",
        'include "x" = 1',
        "include = 1",
        "a = include",
        "a = [include x]",
        "include",
        "include {}",
        'include """x"""',
        "include 5s",
        "include ${x}",
        'a = required("x")',
        "true = 1",
        "null = 1",
        "1 = 1",
        "1.5 = 1",
        "${x} = 1",
        'a."b.c" = 1',
        '"a".b = 1',
        "k w = 1",
        "[a] = 1",
        "a = {x = 1}\n{y = 2}",
    ],
)
def test_what_does_not_fit(text: str) -> None:
    message = error_of(text).message
    assert "expected" in message or "illegal character" in message


@cases(
    ("key", "path"),
    [
        ("a.b.c", ["a", "b", "c"]),
        ("tls..port", ["tls", "port"]),
        ("tls.", ["tls"]),
        ("x.true", ["x", "true"]),
        ("truely", ["truely"]),
        ("on.1", ["on", "1"]),
        ("5s", ["5s"]),
        ("20%", ["20%"]),
        ("a-b_c@d%e|f", ["a-b_c@d%e|f"]),
        ('"a.b"', ["a.b"]),
        ('""', [""]),
        ('"_k"', ["_k"]),
        ('"true"', ["true"]),
        ('"include"', ["include"]),
        ('"größe 1"', ["größe 1"]),
        (r'"a\u0042\n"', ["aB\n"]),
        ('"""a.b"""', ["a.b"]),
        ("true.x", ["true", "x"]),
        ("include.x", ["include", "x"]),
    ],
)
def test_keys(key: str, path: list[str]) -> None:
    value: Plain = 1
    for name in reversed(path):
        value = {name: value}
    assert value_of(f"{key} = 1") == value


def test_keys_are_case_sensitive() -> None:
    assert value_of("a = 1, A = 2") == {"a": 1, "A": 2}


@cases(
    ("text", "value"),
    [
        ("[]", []),
        ("[1, 2]", [1, 2]),
        ("[1, 2,]", [1, 2]),
        ("[1 2]", [1, 2]),
        ("[true 1 null]", [True, 1, None]),
        ("[7 up]", [7, "up"]),
        ("[7up]", [7, "up"]),
        ("[1 2 up, 3 down]", [1, 2, "up", 3, "down"]),
        ("[a b]", ["ab"]),
        ('["a"\n"b"]', ["ab"]),
        ("[a, b]", ["a", "b"]),
        ("[[1]\n[2]]", [[1, 2]]),
        ("[[1], [2]]", [[1], [2]]),
        ("[{a = 1}\n{b = 2}]", [{"a": 1}, {"b": 2}]),
        ("[{a = 1}{b = 2}]", [{"a": 1, "b": 2}]),
        ("[{a = 1} # one\n{b = 2}]", [{"a": 1}, {"b": 2}]),
        ("[{a = 1}\r{b = 2}]", [{"a": 1, "b": 2}]),  # only LF makes a line
        ("[1 {a = 1}]", [1, {"a": 1}]),
        ("[10.1.2.3]", [10.1, 0.2, 0.3]),
        ("[-1 -2 +3]", [-1, -2, 3]),
    ],
)
def test_arrays(text: str, value: Plain) -> None:
    assert field_of(text) == value


@cases("text", ["[up 7]", "[{} 7]", "[[1] true]", '["a" null]', "[1, a 2]"])
def test_a_number_after_a_text_needs_a_comma(text: str) -> None:
    assert "does not fit here" in error_of(f"k = {text}").message


@cases(
    ("text", "value"),
    [
        ("eu west", "euwest"),
        ('"eu west" "-1"', "eu west-1"),
        ('eu\n"west"', "euwest"),
        ("{a = 1}{b = 2}", {"a": 1, "b": 2}),
        ("{a = {x = 1}} {a = {y = 2}, b = 1}", {"a": {"x": 1, "y": 2}, "b": 1}),
        ("[1][2, 3]", [1, 2, 3]),
        ("[1]\n[2]", [1, 2]),
        ("[][]", []),
        ("{}{}", {}),
        ("{l = [1, 2]}{l.2 = 9}", {"l": [1, 9]}),
    ],
)
def test_concatenation(text: str, value: Plain) -> None:
    assert field_of(text) == value


@cases(
    ("text", "kinds"),
    [
        ("[1] x", "a list and a string"),
        ("x [1]", "a string and a list"),
        ("[1] {a = 1}", "a list and an object"),
        ('[1] {"2" = 5}', "a list and an object"),
        ("{a = 1} x", "an object and a string"),
        ("{} x", "an object and a string"),
        ("[] {}", "a list and an object"),
        ("x ${n}", "a string and a number"),
        ("${n}${n}", "a number"),
        ("x${b}", "a string and a boolean"),
        ("[1]${z}", "a list and null"),
        ("{a = 1}${s}", "an object and a string"),
    ],
)
def test_values_of_different_kinds_do_not_join(text: str, kinds: str) -> None:
    error = error_of(f"n = 1, b = true, z = null, s = x\n\nk = {text}")
    assert error.line == 3
    assert f"cannot put together {kinds}:" in error.message


def test_the_message_for_a_number_beside_a_text_says_what_to_do() -> None:
    assert "quote a number where it is defined" in error_of("n = 2\nk = v${n}").message
    assert "quote a number" not in error_of("k = [1] x").message


# A line end of any kind may only stand in a string as an escape.
_TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\u2028\u2029"))
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(_TEXT, inner),
    max_leaves=8,
)


@settings(max_examples=examples(40))
@given(st.dictionaries(_TEXT, _JSON, max_size=4))
def test_any_json_object_reads_as_itself(document: dict[str, Plain]) -> None:
    assert value_of(json.dumps(document)) == document
    assert value_of(json.dumps(document, indent=2, ensure_ascii=False)) == document
