"""Lexical rules: white space, comments, numbers, units, words, and what is illegal."""

from heliograph.hocon.values import Plain
from hocon.reading import error_of, field_of, value_of
from support.cases import cases


@cases(
    "text",
    [
        "",
        " \t\v\f\u00a0\n\r\u2028\u2029",
        "# only a comment",
        "// only a comment\n\n",
        "\ufeff",
        "\ufeff# after a mark",
        "{}",
    ],
)
def test_a_document_without_fields_is_an_empty_object(text: str) -> None:
    assert value_of(text) == {}


@cases("blank", ["\t", "\v", "\f", " ", "\u00a0", "\n", "\r", "\r\n", "\u2028", "\u2029"])
def test_white_space_and_line_ends_only_separate_tokens(blank: str) -> None:
    assert value_of(f"a{blank}={blank}1{blank}b{blank}{{{blank}c{blank}:{blank}2{blank}}}") == {"a": 1, "b": {"c": 2}}


@cases("line_end", ["\n", "\r", "\r\n", "\u2028", "\u2029"])
@cases("mark", ["#", "//"])
def test_a_comment_ends_with_its_line(mark: str, line_end: str) -> None:
    assert value_of(f"port = 1884{mark}tls{line_end}b = 2") == {"port": 1884, "b": 2}


def test_comment_marks_inside_strings_are_text() -> None:
    assert value_of('a = "x#y//z", b = """#//"""') == {"a": "x#y//z", "b": "#//"}


@cases(
    ("text", "value"),
    [
        ("0", 0),
        ("-7", -7),
        ("+7", 7),
        ("0042", 42),
        ("-0", 0),
        ("9223372036854775808", 2**63),
        ("3.0", 3.0),
        ("-2.5", -2.5),
        ("+2.5", 2.5),
        ("00.50", 0.5),
        ("1.5e3", 1500.0),
        ("1.0E-2", 0.01),
        ("1.0e+2", 100.0),
        (".5", 0.5),
        ("-.5", -0.5),
        ("1e3", 1000.0),
        ("12E-1", 1.2),
        ("true", True),
        ("false", False),
        ("null", None),
    ],
)
def test_numbers_and_keywords(text: str, value: Plain) -> None:
    found = field_of(text)
    assert found == value
    assert type(found) is type(value)


def test_integers_may_be_of_any_size() -> None:
    assert field_of("9" * 5000) == 10**5000 - 1
    assert field_of("-1" + "0" * 6000) == -(10**6000)


@cases(
    "text",
    ["True", "NULL", "yes", "on", "off", "nullable", "truely", "a-b", "a.b", "a@b", "x%|_-.", "includes", "required"],
)
def test_words_are_strings(text: str) -> None:
    assert field_of(text) == text


_UNITS = ["%", "b", "B", "kb", "KB", "mb", "MB", "gb", "GB", "d", "D", "h", "H", "m", "M", "s", "S", "ms", "MS"]


@cases("unit", _UNITS)
def test_a_number_with_a_unit_is_a_string_as_written(unit: str) -> None:
    assert field_of(f"0015{unit}") == f"0015{unit}"


@cases("text", ["2h15m", "8secs", "3kbps", "1h2D3ms", "5Mb", "16bytes"])
def test_unit_texts_join_with_what_follows(text: str) -> None:
    assert field_of(text) == text


@cases(
    "text",
    ["3w", "2.5h", "7us", "16Kb", "16 MB", "12abc", "5m30", "10.1.2.3", "-5s", "0x1f", "4 apples", "1 2", "true x"],
)
def test_a_number_or_keyword_with_text_beside_it_does_not_fit(text: str) -> None:
    assert "does not fit here" in error_of(f"k = {text}").message


@cases(
    ("text", "character"),
    [
        ("a/b", "'/'"),
        ("a~b", "'~'"),
        ("a;b", "';'"),
        ("'a'", '"\'"'),
        ("(a)", "'('"),
        ("a<b", "'<'"),
        ("a+b", "'+'"),
        ("a!b", "'!'"),
        ("a?b", "'?'"),
        ("a*", "'*'"),
        ("a&b", "'&'"),
        ("a^b", "'^'"),
        ("a\\b", r"'\\'"),
        ("`a`", "'`'"),
        ("_a", "'_'"),
        (".a", "'.'"),
        ("-a", "'-'"),
        ("@a", "'@'"),
        ("%a", "'%'"),
        ("|a", "'|'"),
        ("0.5%", "'%'"),
        ("4.", "'.'"),
        ("1_000", "'_'"),
        ("é", "'é'"),
        ("aé", "'é'"),
        ("\u0663", "'\u0663'"),  # a digit of another script
        ("\x00", "U+0000"),
        ("\x1b", "U+001B"),
        ("\u2003", "U+2003"),  # a blank that is none here
        ("\u0085", "U+0085"),  # a line end that is none here
        ("x\ufeff", "byte order mark"),
    ],
)
def test_characters_outside_the_table_are_illegal(text: str, character: str) -> None:
    assert character in error_of(f"k = {text}").message


@cases("text", ["$x", "${ x}", "${x }", "${}", '${"x"}', "${?}", "${1a}", "${x", "$", "${?x?}"])
def test_a_substitution_has_one_form(text: str) -> None:
    error = error_of(f"a = 1\nk = {text}")
    assert error.line == 2
    assert "illegal character '$'" in error.message


def test_a_float_beyond_the_largest_is_an_error() -> None:
    error = error_of("\nk = 1.0e999")
    assert (error.file, error.line) == ("main.conf", 2)
    assert "1.0e999 is too large" in error.message


@cases(("content", "line"), [(b"a = 1\nb = \xff", 2), (b'a = "\xe2\x82"', 1), (b"# \xc3", 1), (b"\xed\xa0\x80", 1)])
def test_only_utf8_is_text(content: bytes, line: int) -> None:
    error = error_of(content)
    assert error.line == line
    assert "is not UTF-8" in error.message


def test_a_text_with_half_a_surrogate_pair_is_not_utf8_either() -> None:
    assert "is not UTF-8" in error_of('a = "\ud800"').message


def test_the_first_illegal_character_wins_over_syntax_errors_before_it() -> None:
    error = error_of("a b c\n= = =\nx = 'y'")
    assert error.line == 3
