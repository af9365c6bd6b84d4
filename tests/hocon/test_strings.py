"""Quoted and triple-quoted strings."""

import json

from hypothesis import given
from hypothesis import strategies as st

from hocon.reading import error_of, field_of
from support.cases import cases


@cases(
    ("text", "value"),
    [
        (r'""', ""),
        (r'"a b"', "a b"),
        (r'"\" \\ \n \t \r \b \f"', '" \\ \n \t \r \b \f'),
        (r'"\d+ \/ \w"', r"\d+ \/ \w"),
        (r'"\\d"', r"\d"),
        (r'"ends in \\"', "ends in \\"),
        (r'"a\\" "b"', "a\\b"),
        ('"tab\there, control \x01"', "tab\there, control \x01"),
        (r'"\u0041\u00e9\u20AC"', "Aé€"),
        (r'"\ud83d\ude00"', "😀"),
        (r'"\\u0041"', r"\u0041"),
        ('"😀"', "😀"),
    ],
)
def test_quoted_strings(text: str, value: str) -> None:
    assert field_of(text) == value


@cases("text", ['"open', '"x\\"', '"line\nend"', '"cr\rend"', '"ls\u2028end"', '"ps\u2029end"', '"x\\\n"'])
def test_a_string_that_is_not_closed_on_its_line_is_an_error_at_its_quote(text: str) -> None:
    error = error_of(f"\nk = {text}")
    assert error.line == 2
    assert "never closed" in error.message


@cases(
    ("text", "found"),
    [
        (r'"\u00g1"', r"\u00g1"),
        (r'"\u12"', r"\u12"),
        (r'"\ud83d"', r"\ud83d"),
        (r'"\ud83d x"', r"\ud83d"),
        (r'"\ud83d\n"', r"\ud83d"),
        (r'"\ude00"', r"\ude00"),
        (r'"\ud83d\u0041"', r"\ud83d"),
        (r'"\ud83d\ud83d\ude00"', r"\ud83d"),
    ],
)
def test_bad_unicode_escapes_name_the_line(text: str, found: str) -> None:
    error = error_of(f"\n\nk = {text}")
    assert error.line == 3
    assert found in error.message


@cases(
    ("text", "value"),
    [
        ('""""""', ""),
        ('"""a\r\nb"""', "a\r\nb"),
        (r'"""\n \u0041 \d"""', r"\n \u0041 \d"),
        (r'"""a\""" x', "a\\x"),
        ('"""one " two "" three"""', 'one " two "" three'),
        ('""""q"""', '"q'),
        ('"""""q"""', '""q'),
        ('"""~text"""', "~text"),
        ('"""~ \n  a"""', "~ \n  a"),
        ('"""text~"""', "text~"),
    ],
)
def test_triple_quoted_strings_are_raw(text: str, value: str) -> None:
    assert field_of(text) == value


@cases("text", ['"""a""""', '"""a\\""""', '"""""""', '"""a"""""'])
def test_four_closing_quotes_are_an_error(text: str) -> None:
    assert "four quotes" in error_of(f"k = {text}").message


def test_four_closing_quotes_are_reported_where_they_stand() -> None:
    assert error_of('k = """a\nb\nc""""').line == 3


def test_an_open_triple_quote_is_reported_at_its_start() -> None:
    error = error_of('\nk = """a\n\nb"" x')
    assert error.line == 2
    assert "never closed" in error.message


@cases(
    ("inside", "value"),
    [
        ('~\n    SELECT *\n      FROM "s/#"\n  ~', 'SELECT *\n  FROM "s/#"\n'),
        ("~\n  a\n  b", "a\nb"),
        ("~\r\n  a\r\n  b\r\n  ", "a\r\nb\r\n"),
        ("~\n  a\n\n  b", "a\n\nb"),
        ("~\n  a\n\r\n  b", "a\n\r\nb"),
        ("~\n    a\n  \n    b", "  a\n\n  b"),  # a line of blanks counts
        ("~\n    a\n  ", "a\n"),  # but not the last
        ("~\n  a\n      ", "a\n    "),  # and it keeps what it has more
        ("~\n    a\n  ~", "a\n"),
        ("~\n   ", ""),
        ("~\n", ""),
        ("~\n~", ""),
        ("~\n\ta\n\t b", "\ta\n\t b"),
        ("~\n  \ta\n   b", "\ta\n b"),
        ('~\n  ends in "~', 'ends in "'),
        ("~\na\n  b", "a\n  b"),
        ("~\n  a~\n  ~b", "a~\n~b"),
    ],
)
def test_the_indented_form(inside: str, value: str) -> None:
    assert field_of(f'"""{inside}"""') == value


def test_lines_after_a_long_string_are_counted() -> None:
    assert error_of('a = """x\ny\r\nz\rw"""\n\nw = = 1').line == 5


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_any_text_survives_as_a_json_string(text: str) -> None:
    assert field_of(json.dumps(text)) == text


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])).filter(lambda text: '"""' not in text))
def test_any_text_without_its_own_quotes_survives_in_triple_quotes(text: str) -> None:
    if text.endswith('"') or text.startswith(("~\n", "~\r\n")):
        return
    assert field_of(f'"""{text}"""') == text
