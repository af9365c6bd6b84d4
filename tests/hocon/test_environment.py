"""Environment variables over a document."""

from pathlib import Path

import pytest

from heliograph.hocon.document import parse_text
from heliograph.hocon.environment import apply_environment
from heliograph.hocon.errors import HoconError
from heliograph.hocon.values import Plain, to_plain
from hocon.reading import value_of
from support.cases import cases


def applied(text: str, environ: dict[str, str]) -> Plain:
    """The document after the variables, whose names are given without the prefix."""
    variables = {f"HELIOGRAPH_{name}": value for name, value in environ.items()}
    return to_plain(apply_environment(parse_text(text), variables))


@cases(
    ("name", "value"),
    [
        ("A", {"a": 1}),
        ("A__B", {"a": {"b": 1}}),
        ("FORCE_GC__COUNT", {"force_gc": {"count": 1}}),
        ("a__b", {"a": {"b": 1}}),
        ("A____B__", {"a": {"b": 1}}),
        ("__A", {"a": 1}),
        ("A___B", {"a": {"_b": 1}}),
        ("", {}),
        ("__", {}),
    ],
)
def test_names(name: str, value: Plain) -> None:
    assert applied("", {name: "1"}) == value


@cases("name", ["heliograph_a", "Heliograph_A", "HELIOGRAPHA", "XHELIOGRAPH_A", "EMQX_A"])
def test_the_prefix_is_exact(name: str) -> None:
    assert to_plain(apply_environment(parse_text(""), {name: "1"})) == {}


def test_another_prefix() -> None:
    assert to_plain(apply_environment(parse_text(""), {"EMQX_A": "1", "HELIOGRAPH_B": "2"}, "EMQX_")) == {"a": 1}


@cases(
    ("text", "value"),
    [
        ("", ""),
        ("007", 7),
        ("true", True),
        ("null", None),
        ("1e3", 1000.0),
        ("pa ss", "pass"),
        ('"pa ss"', "pa ss"),
        ("pw#1", "pw"),
        ('"pw#1"', "pw#1"),
        ("[1, 2]", [1, 2]),
        ("{a = 1, b {c = 2}}", {"a": 1, "b": {"c": 2}}),
        ("{a = [1 2]\n}", {"a": [1, 2]}),
        ("x${?y}", "x"),
        ('"""a\nb"""', "a\nb"),
        # what is no value is text
        ("host:1884", "host:1884"),
        ("127.0.0.1:1883", "127.0.0.1:1883"),
        ("10.1.2.3", "10.1.2.3"),
        ("a+b", "a+b"),
        ("${x}", "${x}"),
        ("x${y}", "x${y}"),
        ("größe", "größe"),
        ("5,", "5,"),
        ("a = 1", "a = 1"),
        ("1 b = 2", "1 b = 2"),
        ("foo {x = 1}", "foo {x = 1}"),
        ("}", "}"),
        ("# only", "# only"),
        (" ", " "),
        ("[1] x", "[1] x"),
        ("{a = 1}\n{b = 2}", "{a = 1}\n{b = 2}"),
        ("[" * 100_000, "[" * 100_000),
        ("1.0e999", "1.0e999"),
        ('{include required("/nowhere")}', '{include required("/nowhere")}'),
        ("{a = 1, b = ${a}}", "{a = 1, b = ${a}}"),
        ("\udcff", "\udcff"),
    ],
)
def test_values(text: str, value: Plain) -> None:
    assert applied("", {"K": text}) == {"k": value}


def test_a_lone_optional_substitution_sets_nothing() -> None:
    assert applied("k = 1", {"K": "${?x}"}) == {"k": 1}


def test_a_value_may_include_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "f.conf").write_text("x = 1, y = ${x}")
    monkeypatch.chdir(tmp_path)
    assert applied("", {"K": '{include "f.conf"}'}) == {"k": {"x": 1, "y": 1}}


@cases(
    ("text", "environ", "value"),
    [
        ("a {x = 1, y = 2}", {"A": "{x = 3}"}, {"a": {"x": 3}}),  # the whole node, no merge
        ("a {x = 1, y = 2}", {"A__X": "3"}, {"a": {"x": 3, "y": 2}}),
        ("a = 1", {"A__X": "3"}, {"a": {"x": 3}}),
        ("a = null", {"A__X": "3"}, {"a": {"x": 3}}),
        ("", {"A": "{x = 1}", "A__Y": "2"}, {"a": {"x": 1, "y": 2}}),
        ("", {"A": "1", "a": "2"}, {"a": 2}),  # the lower-case name applies last
        ("a = 1, b = ${a}", {"A": "2"}, {"a": 2, "b": 1}),  # substitutions never see it
        ("l = [1, 2]", {"L__2": "9"}, {"l": [1, 9]}),
        ("l = [1, 2]", {"L__3": "9"}, {"l": [1, 2, 9]}),
        ("l = [1, 2]", {"L__02": "9"}, {"l": [1, 9]}),
        ("l = [1, 2]", {"L": "[3]"}, {"l": [3]}),
        ("l = [{port = 1, host = a}]", {"L__1__PORT": "2"}, {"l": [{"port": 2, "host": "a"}]}),
        ("l = []", {"L__1__PORT": "2"}, {"l": [{"port": 2}]}),
        ("", {"L__1": "a", "L__2": "b"}, {"l": ["a", "b"]}),
        ("l {}", {"L__1": "a"}, {"l": ["a"]}),
        ('l {"1" = a}', {"L__1": "b"}, {"l": {"1": "b"}}),
        ("l = [1]", {"L__X": "2"}, {"l": {"x": 2}}),
        ("", {"1": "a"}, {"1": "a"}),  # the root is never a list
        ("", {f"L__{index:02}": str(index) for index in range(1, 12)}, {"l": list(range(1, 12))}),
    ],
)
def test_layering(text: str, environ: dict[str, str], value: Plain) -> None:
    assert applied(text, environ) == value


@cases(("text", "name"), [("l = [1]", "L__3"), ("l = [1]", "L__0"), ("l = [1]", "L__-1"), ("", "L__2"), ("", "L__10")])
def test_an_index_outside_the_list_names_the_variable(text: str, name: str) -> None:
    with pytest.raises(HoconError) as caught:
        applied(text, {name: "x"})
    assert (caught.value.file, caught.value.line) == (f"HELIOGRAPH_{name}", None)
    assert "outside the list" in caught.value.message


def test_the_document_itself_is_not_changed() -> None:
    node = parse_text("a {b = [1, {c = 2}]}")
    apply_environment(node, {"HELIOGRAPH_A__B__2__C": "3", "HELIOGRAPH_A__X": "1"})
    assert to_plain(node) == value_of("a {b = [1, {c = 2}]}")


def test_values_from_a_variable_have_its_name_as_their_position() -> None:
    node = apply_environment(parse_text("a {x = 1}", name="main.conf"), {"HELIOGRAPH_A__Y": "{z = [\n\n1]}"})
    assert isinstance(node.value, dict)
    a = node.value["a"]
    assert isinstance(a.value, dict)
    assert str(a.position) == "main.conf:1"
    assert str(a.value["x"].position) == "main.conf:1"
    y = a.value["y"]
    assert str(y.position) == "HELIOGRAPH_A__Y"
    assert isinstance(y.value, dict)
    assert str(y.value["z"].position) == "HELIOGRAPH_A__Y"
    assert y.value["z"].position.line is None
