"""Hostile and mistaken input: it must end in a value or in an error that names the limit, never in an outage."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heliograph.hocon.document import parse_text
from heliograph.hocon.errors import HoconError
from heliograph.hocon.files import MemoryFiles
from heliograph.hocon.limits import ParsingLimits
from heliograph.hocon.values import to_json, to_plain
from hocon.reading import error_of, value_of
from support.cases import cases
from support.forms import examples


@cases(
    "text",
    [
        "a = " + "[" * 100_000,
        "a = " + "[" * 30_000 + "]" * 30_000,
        "a = 1\nb = " + "{a = " * 20_000 + "1" + "}" * 20_000,
        "a = 1\nb" + ".b" * 20_000 + " = 1",
        "a" + ".b" * 500_000 + " = 1",
        "\n".join(["a0 = [1]"] + [f"a{i + 1} = [${{a{i}}}]" for i in range(600)]),
    ],
    ids=["open lists", "lists", "objects", "a dotted key", "a very long one", "substitutions"],
)
def test_nesting_is_limited(text: str) -> None:
    error = error_of(text)
    assert "more than 500 levels deep, which is the limit" in error.message
    assert error.file == "main.conf"
    assert error.line is not None


def test_nesting_up_to_the_limit_works() -> None:
    text = "a = " + "[" * 499 + "]" * 499
    node = parse_text(text)
    assert to_json(node, None) == '{"a": ' + "[" * 499 + "]" * 499 + "}"
    assert str(to_plain(node)) == "{'a': " + "[" * 499 + "]" * 499 + "}"


@cases(
    ("first", "step"),
    [
        ("x", "${b%d}${b%d}"),
        ("[x]", "${b%d}${b%d}"),
        ("[x]", "[${b%d}, ${b%d}]"),
        ("{x = 1}", "{l = ${b%d}, r = ${b%d}}"),
    ],
    ids=["text", "joined lists", "nested lists", "objects"],
)
def test_doubling_is_limited(first: str, step: str) -> None:
    text = f"b0 = {first}\n" + "\n".join(f"b{i + 1} = {step % (i, i)}" for i in range(60))
    error = error_of(text)
    assert "which is the limit" in error.message
    assert error.line is not None
    assert error.line > 10


def test_doubling_within_the_limit_works() -> None:
    document = value_of("b0 = x\n" + "\n".join(f"b{i + 1} = ${{b{i}}}${{b{i}}}" for i in range(16)))
    assert isinstance(document, dict)
    assert document["b16"] == "x" * 65536


def test_a_text_that_no_substitution_expands_is_only_limited_in_size() -> None:
    document = parse_text("l = [" + "1," * 20_000 + "]", limits=ParsingLimits(expansion=0))
    assert to_plain(document) == {"l": [1] * 20_000}


def test_a_chain_of_a_thousand_substitutions_resolves() -> None:
    text = "\n".join(f"a{i} = ${{a{i + 1}}}" for i in range(3000)) + "\na3000 = end"
    document = value_of(text)
    assert isinstance(document, dict)
    assert document["a0"] == "end"


def test_substitutions_that_all_lead_to_one_another_run_out_of_steps() -> None:
    names = range(12)
    text = "\n".join(f"a{i} = " + "".join(f"${{?a{j}}}" for j in names) for i in names)
    with pytest.raises(HoconError, match="more than 5000 evaluation steps, which is the limit"):
        parse_text(text, limits=ParsingLimits(steps=5000))


@cases("depth", [20, 40])
def test_includes_that_double_are_limited(depth: int) -> None:
    files: dict[str, str | bytes] = {f"f{i}": f'include "f{i + 1}"\ninclude "f{i + 1}"' for i in range(depth)}
    error = error_of("include f0", files)
    assert "more than 1000 includes" in error.message
    assert error.line is not None


def test_a_long_chain_of_includes_is_limited() -> None:
    files: dict[str, str | bytes] = {f"f{i}": f"include f{i + 1}" for i in range(100)}
    error = error_of("include f0", files)
    assert "more than 64 files deep, which is the limit" in error.message
    assert (error.file, error.line) == ("f63", 1)


def test_the_size_of_a_file_is_limited() -> None:
    limits = ParsingLimits(file_bytes=1000)
    with pytest.raises(HoconError, match="larger than 1000 bytes, which is the limit"):
        parse_text(" " * 1001, limits=limits)
    with pytest.raises(HoconError, match=r"main\.conf:2: cannot include 'big': the file is larger than 1000 bytes"):
        parse_text("\ninclude big", name="main.conf", files=MemoryFiles({"big": " " * 1001}), limits=limits)


def test_the_digits_of_an_integer_are_limited() -> None:
    error = error_of("\nk = " + "9" * 100_001)
    assert error.line == 2
    assert "the limit is 100000" in error.message


@cases(
    "text",
    [
        'a = "' + "x" * 1_000_000 + '"',
        'a = "' + "\\n" * 300_000 + '"',
        'a = """' + '""x' * 300_000 + '"""',
        "#" * 1_000_000,
        " " * 1_000_000,
        "# x\n" * 200_000,
    ],
    ids=["text", "escapes", "quotes", "a comment", "blanks", "comments"],
)
def test_a_megabyte_of_one_thing_is_read(text: str) -> None:
    assert isinstance(value_of(text), dict)


@cases(
    "text",
    ['"' + "\\n" * 300_000, '"""' + '"a' * 300_000, "${" + "a" * 300_000, 'required("' + "a" * 300_000],
    ids=["text", "quotes", "a substitution", "required"],
)
def test_a_megabyte_that_never_closes_is_an_error(text: str) -> None:
    assert error_of(f"a = {text}").line == 1


_PIECES = st.sampled_from(
    [
        *["a", "b", "a.b", '"', '"""', "\\", "{", "}", "[", "]", ",", "=", ":", "+=", "#", "//", "1", "-", ".", "5s"],
        *["1.0e999", '"x"', "é", "${a}", "${?b}", "${a.b}", "$", "include", "required(", "true", "null"],
        *["~\n", "\n", " ", "\u2028"],
    ]
)


@settings(max_examples=examples(300))
@given(st.lists(_PIECES, max_size=30).map("".join))
def test_any_mixture_of_pieces_is_read_or_refused(text: str) -> None:
    try:
        node = parse_text(text, files=MemoryFiles({"a": "x = ${x}", "b": "include a"}))
    except HoconError as error:
        assert error.file in ("<text>", "a", "b")  # noqa: PT017 - either outcome is fine, another exception is not
    else:
        assert isinstance(to_plain(node), dict)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    try:
        node = parse_text(content)
    except HoconError as error:
        assert str(error).startswith("<text>:")  # noqa: PT017
    else:
        assert isinstance(to_plain(node), dict)


def test_words_values_and_marks_are_limited_over_all_that_is_included() -> None:
    files = MemoryFiles({"x": "l = [1, 2, 3]"})
    text = 'a {include "x"}\nb {include "x"}'
    parse_text(text, files=files, limits=ParsingLimits(tokens=28))
    with pytest.raises(HoconError, match="more than 27 words, values and punctuation marks") as caught:
        parse_text(text, files=files, limits=ParsingLimits(tokens=27))
    assert (caught.value.file, caught.value.line) == ("x", 1)


@cases("count", [2, 20, 2000])
def test_a_value_that_only_extends_itself_is_told_of_at_once(count: int) -> None:
    error = error_of("a = ${a}x\n" * count)
    assert (error.line, "defined only by way of itself" in error.message) == (1, True)


def test_a_message_names_a_bounded_number_of_substitutions() -> None:
    error = error_of("".join(f"a{number} = ${{nope}}\n" for number in range(5000)))
    assert error.line == 1
    assert "and 4900 more" in error.message
    assert len(error_of("a = ${" + "b." * 100_000 + "c}").message) < 1000
