"""Including files: lookup, merging, cycles, and what substitutions in an included file mean."""

import os
from pathlib import Path

import pytest

from heliograph.hocon.document import parse_file, parse_text
from heliograph.hocon.errors import HoconError
from heliograph.hocon.values import Plain, to_plain
from hocon.reading import error_of, value_of
from support.cases import cases


@cases(
    ("text", "value"),
    [
        ('include "b.conf"', {"b": 1}),
        ("include b.conf", {"b": 1}),
        ('include required("b.conf")', {"b": 1}),
        ('a = 0, include "b.conf", c = 2', {"a": 0, "b": 1, "c": 2}),
        ('a = 0 include "b.conf" c = 2', {"a": 0, "b": 1, "c": 2}),
        ('b = 0, include "b.conf"', {"b": 1}),
        ('include "b.conf", b = 2', {"b": 2}),
        ('g {include "b.conf"}', {"g": {"b": 1}}),
        ('l = [{include "b.conf"}]', {"l": [{"b": 1}]}),
        ('include "b.conf" include "c.json"', {"b": 1, "c": [1]}),
        ('include "b.conf", include "b.conf"', {"b": 1}),
        ('include "braced.conf"', {"x": 1}),
        ('include "trailing.conf"', {"x": 1}),
        ('include "marked.conf"', {"x": 1}),
        ('include "missing.conf"', {}),
        ('include "sub/a.conf"', {"s": 1, "b": 1}),
        ('include "sub/nothing.conf", b = 2', {"b": 2}),
        ("include empty.conf", {}),
        ("x = ${b}, include b.conf", {"x": 1, "b": 1}),
    ],
)
def test_includes(text: str, value: Plain) -> None:
    files = {
        "b.conf": "b = 1",
        "c.json": '{"c": [1]}',
        "braced.conf": "{x = 1}",
        "trailing.conf": "x = 1,",
        "marked.conf": "\ufeffx = 1",
        "sub/a.conf": 's = 1, include "../b.conf", include "b.conf"',
        "empty.conf": "# nothing",
    }
    assert value_of(text, files) == value


def test_a_required_file_that_is_missing_is_an_error_at_the_include() -> None:
    error = error_of('a = 1\ninclude required("no.conf")')
    assert error.line == 2
    assert '"no.conf" does not exist' in error.message


@cases(
    "form",
    [
        'file("b")',
        'url("b")',
        'classpath("b")',
        'required( "b")',
        'required("b" )',
        'required(file("b"))',
        "required(b)",
    ],
)
def test_forms_of_other_dialects_are_illegal(form: str) -> None:
    assert "illegal character '('" in error_of(f"include {form}").message


@cases("text", ["l = [include b]", 'a = include "b"', 'l = [1, include "b"]'])
def test_an_include_stands_where_a_field_may(text: str) -> None:
    assert "does not fit here" in error_of(text, {"b": "x = 1"}).message


def test_an_included_array_is_an_error_in_its_file() -> None:
    error = error_of('include "b"', {"b": "\n[1]"})
    assert (error.file, error.line) == ("b", 2)


@cases(
    ("files", "chain"),
    [
        ({"a": 'include "a"'}, "main.conf -> a -> a"),
        ({"a": 'include "b"', "b": "\n\ninclude a"}, "main.conf -> a -> b -> a"),
        ({"a": 'include "sub/b"', "sub/b": 'include "../sub/../a"'}, "main.conf -> a -> sub/b -> a"),
    ],
)
def test_a_cycle_is_an_error_with_its_chain(files: dict[str, str | bytes], chain: str) -> None:
    assert chain in error_of('include "a"', files).message


@cases(
    ("text", "included", "value"),
    [
        ('gw {include "g"}', "port = 1, p = ${port}", {"gw": {"port": 1, "p": 1}}),
        ('port = 9, gw {include "g"}', "port = 1, p = ${port}", {"port": 9, "gw": {"port": 1, "p": 1}}),
        ('gw {include "g"}, gw.port = 2', "port = 1, p = ${port}", {"gw": {"port": 2, "p": 2}}),
        ('a.b {c {include "g"}}', "port = 1, p = ${port}", {"a": {"b": {"c": {"port": 1, "p": 1}}}}),
        ('include "g"', "port = 1, p = ${port}", {"port": 1, "p": 1}),
        ('port = 9, gw {include "g"}', "p = ${?port}", {"port": 9, "gw": {}}),
        ('"x.y" {include "g"}', "port = 1, p = ${port}", {"x.y": {"port": 1, "p": 1}}),
        ('l = [{include "g"}]', "port = 1, p = ${port}", {"l": [{"port": 1, "p": 1}]}),
        ('l = [0, {gw {include "g"}}]', "port = 1, p = ${port}", {"l": [0, {"gw": {"port": 1, "p": 1}}]}),
        (
            'l = [{a = 1}{include "g"}]',
            "p = 1, q = ${p}",
            {"l": [{"a": 1, "p": 1, "q": 1}]},
        ),
        ('l = [{include "g"}\n{include "g"}]', "n = ${?n}x", {"l": [{"n": "x"}, {"n": "x"}]}),
        ('r = 5, l = [{a = ${r}, include "g"}]', "port = 1", {"r": 5, "l": [{"a": 5, "port": 1}]}),
    ],
)
def test_substitutions_in_an_included_file_start_where_it_is_included(text: str, included: str, value: Plain) -> None:
    assert value_of(text, {"g": included}) == value


def test_substitutions_two_includes_deep() -> None:
    files: dict[str, str | bytes] = {"g": "b {include h}", "h": "x = 1, y = ${x}"}
    assert value_of("a {include g}", files) == {"a": {"b": {"x": 1, "y": 1}}}


def test_a_substitution_in_an_included_file_never_means_the_root() -> None:
    error = error_of("port = 1\ngw {include g}", {"g": "\np = ${port}"})
    assert (error.file, error.line) == ("g", 2)
    assert "gw.port" in error.message


def test_errors_of_the_including_file_come_first() -> None:
    files: dict[str, str | bytes] = {"a": "k = /", "b": "x x"}
    assert error_of("include a\ny y", files).file == "main.conf"
    assert error_of("x = ${no}\ninclude a", files).file == "a"
    assert error_of("include b\ninclude a", files).file == "b"


def test_an_included_file_that_is_not_utf8_is_named_with_its_line() -> None:
    error = error_of("\ninclude b", {"b": b"a = 1\nx = \xff"})
    assert (error.file, error.line) == ("b", 2)


def test_files_are_looked_up_beside_the_including_file_then_in_the_directories(tmp_path: Path) -> None:
    for folder in ("sub", "first", "second"):
        (tmp_path / folder).mkdir()
    (tmp_path / "main.conf").write_text('include "sub/a.conf"')
    (tmp_path / "sub/a.conf").write_text("include b.conf include c.conf include d.conf")
    (tmp_path / "sub/b.conf").write_text("b = beside")
    (tmp_path / "b.conf").write_text("b = main")
    (tmp_path / "first/b.conf").write_text("b = first")
    (tmp_path / "first/c.conf").write_text("c = first")
    (tmp_path / "second/c.conf").write_text("c = second")
    (tmp_path / "second/d.conf").write_text("d = second")
    node = parse_file(tmp_path / "main.conf", include_dirs=[tmp_path / "first", tmp_path / "second"])
    assert to_plain(node) == {"b": "beside", "c": "first", "d": "second"}


def test_absolute_names_and_links(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").mkdir()
    (tmp_path / "real/a.conf").write_text('include "b.conf"')
    (tmp_path / "real/b.conf").write_text("b = real")
    (tmp_path / "link/b.conf").write_text("b = link")
    (tmp_path / "link/a.conf").symlink_to(tmp_path / "real/a.conf")
    assert to_plain(parse_text(f'include "{tmp_path}/link/a.conf"')) == {"b": "link"}


def test_a_cycle_through_a_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.conf").write_text("include b.conf")
    (tmp_path / "b.conf").symlink_to(tmp_path / "a.conf")
    with pytest.raises(HoconError, match="includes itself"):
        parse_file(tmp_path / "a.conf")


def test_a_relative_main_file_includes_relative_to_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/main.conf").write_text("include b.conf")
    (tmp_path / "etc/b.conf").write_text("\nb = ${no}")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(HoconError) as caught:
        parse_file("etc/main.conf")
    assert (caught.value.file, caught.value.line) == (os.path.join("etc", "b.conf"), 2)


def test_what_is_there_but_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "main.conf").write_text("a = 1\ninclude folder")
    with pytest.raises(HoconError) as caught:
        parse_file(tmp_path / "main.conf")
    assert caught.value.line == 2
    assert "is a directory" in caught.value.message


@cases("name", [r"a\u0000b", "x" * 5000, "main.conf/x"])
def test_names_that_no_file_can_have_are_errors(name: str, tmp_path: Path) -> None:
    (tmp_path / "main.conf").write_text(f'\ninclude "{name}"')
    with pytest.raises(HoconError) as caught:
        parse_file(tmp_path / "main.conf")
    assert caught.value.line == 2
    assert "cannot include" in caught.value.message


def test_the_main_file_must_exist_and_be_a_file(tmp_path: Path) -> None:
    with pytest.raises(HoconError, match="there is no such file"):
        parse_file(tmp_path / "no.conf")
    with pytest.raises(HoconError, match="is a directory"):
        parse_file(tmp_path)
