"""Templates of actions."""

from heliograph.rules.engine.template import compile_template, compile_value, fixed_text
from heliograph.rules.values import UNDEFINED, Value
from support.cases import cases

ROW: dict[str, Value] = {
    "a": 1,
    "f": 1.5,
    "t": True,
    "n": None,
    "s": "text",
    "b": b"\xff",
    "m": {"x": {"y": "deep"}, "a b": 2},
    "l": [{"id": 7}, 8],
    "js": '{"k":{"v":3}}',
}


@cases(
    ("template", "text"),
    [
        ("", b""),
        ("plain", b"plain"),
        ("${a}", b"1"),
        ("${f} ${t} ${n} ${s}", b"1.5 true null text"),
        ("<${b}>", b"<\xff>"),
        ("${missing}", b"undefined"),
        ("${m.x.y}/${m.x}", b'deep/{"y":"deep"}'),
        ("${m.nothing.here}", b"undefined"),
        ("${.a}", b"1"),
        ("${l[1].id}${l[-1]}", b"78"),
        ("${l[9]}", b"undefined"),
        ("${m.'a b'}", b"2"),
        ("${js.k.v}", b"3"),
        ("${$}{a}", b"${a}"),
        ("costs $5, ${a-b} ${ a } ${} ${a", b"costs $5, ${a-b} ${ a } ${} ${a"),
    ],
)
def test_a_template_is_rendered(template: str, text: bytes) -> None:
    assert compile_template(template)(ROW) == text


def test_the_whole_row_is_json() -> None:
    render = compile_template("row: ${.}")
    assert render({"a": [1, 2.0], "u": UNDEFINED, "i": 10**30}) == b'row: {"a":[1,2.0],"u":"undefined","i":' + (
        b"1" + b"0" * 30 + b"}"
    )


def test_a_value_keeps_its_kind() -> None:
    assert compile_value("${a}")(ROW) == 1
    assert compile_value("${m}")(ROW) == ROW["m"]
    assert compile_value("${missing}")(ROW) is UNDEFINED
    assert compile_value("x${a}")(ROW) == "x1"


def test_what_has_no_placeholder_is_fixed() -> None:
    assert fixed_text("a/b${$}") == b"a/b$"
    assert fixed_text("a/${b}") is None
