"""Hypothesis strategies for small rules, and for messages that they find something in."""

import json

from hypothesis import strategies as st

from heliograph.rules.columns import MessageColumns

_NAMES = ("a", "b", "c")

_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.integers(-(2**70), 2**70),
    st.sampled_from([0.0, -0.0, 1.0, 1.5, -2.5, 1e300, 1e-7, 0.1]),
    st.sampled_from(["", "a", "x/y", "1", "2.5", "1e3", "true", "null", '{"a": 1}', "ä", "😀"]),
)
_json = st.recursive(
    _scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(_NAMES), inner, max_size=3)),
    max_leaves=5,
)
_payloads = st.one_of(
    st.dictionaries(st.sampled_from(_NAMES), _json, max_size=3).map(lambda value: json.dumps(value).encode()),
    st.sampled_from([b"", b"{", b"5", b"[1]", b'"{}"', b"\xff", b'{"a": 1} x', b'{"a": 1e400}', b'{"a": "\\ud800"}']),
)


@st.composite
def messages(draw: st.DrawFn) -> MessageColumns:
    """Messages of two topics, one of which `#` does not match."""
    properties: dict[str, str] | None = draw(st.sampled_from([None, {"Content-Type": "a", "User-Property.a": "1"}]))
    return MessageColumns(
        draw(st.sampled_from(["t/1", "t/1", "t/1", "$SYS/x"])),
        draw(_payloads),
        draw(st.integers(0, 2)),
        draw(st.booleans()),
        draw(st.sampled_from(["", "a", "c1"])),
        draw(st.sampled_from([None, "u1"])),
        properties,
        draw(st.binary(min_size=16, max_size=16)),
        draw(st.integers(0, 2**51)),
    )


class _Grammar:
    """Rules over the given atoms; without functions and with simple columns, Spark evaluates most of them itself."""

    def __init__(
        self,
        atoms: list[str],
        functions: list[str],
        pair_functions: list[str],
        targets: list[str],
        conditions: list[str],
    ) -> None:
        self._functions = functions
        self._pair_functions = pair_functions
        self.expressions = st.recursive(st.sampled_from(atoms), self._grown, max_leaves=4)
        self.conditions = st.recursive(self._tests(conditions), self._joined, max_leaves=3)
        self.fields = self._fields_to(targets, atoms)

    def _grown(self, inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        operators = ["+", "-", "*", "/", "div", "mod"]
        grown = [
            st.tuples(inner, st.sampled_from(operators), inner).map(lambda parts: f"({' '.join(parts)})"),
            inner.map(lambda operand: f"(-{operand})"),
        ]
        if self._functions:
            call = st.tuples(st.sampled_from(self._functions), inner)
            grown.append(call.map(lambda parts: f"{parts[0]}({parts[1]})"))
            pair = st.tuples(st.sampled_from(self._pair_functions), inner, inner)
            grown.append(pair.map(lambda parts: f"{parts[0]}({parts[1]}, {parts[2]})"))
        return st.one_of(grown)

    def _comparisons(self) -> st.SearchStrategy[str]:
        operators = st.sampled_from(["=", "!=", "<", ">", "<=", ">=", "<>", "=~"])
        return st.tuples(self.expressions, operators, self.expressions).map(" ".join)

    def _tests(self, conditions: list[str]) -> st.SearchStrategy[str]:
        candidates = st.lists(self.expressions, min_size=1, max_size=3)
        return st.one_of(
            self._comparisons(),
            self._comparisons(),
            st.tuples(self.expressions, candidates).map(lambda parts: f"{parts[0]} IN ({', '.join(parts[1])})"),
            st.sampled_from(conditions),
        )

    def _joined(self, inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.one_of(
            st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(lambda parts: f"({' '.join(parts)})"),
            inner.map(lambda operand: f"NOT ({operand})"),
        )

    def _cases(self) -> st.SearchStrategy[str]:
        otherwise = st.one_of(st.just(""), self.expressions.map(lambda result: f"ELSE {result} "))
        searched = st.tuples(self.conditions, self.expressions, otherwise)
        simple = st.tuples(self.expressions, self.expressions, self.expressions, otherwise)
        return st.one_of(
            searched.map(lambda parts: f"CASE WHEN {parts[0]} THEN {parts[1]} {parts[2]}END"),
            simple.map(lambda parts: f"CASE {parts[0]} WHEN {parts[1]} THEN {parts[2]} {parts[3]}END"),
        )

    def _fields_to(self, targets: list[str], atoms: list[str]) -> st.SearchStrategy[str]:
        values = st.one_of(self.expressions, self.expressions, self._cases(), self._comparisons())
        unnamed = [atom for atom in atoms if atom[0].isalpha() and ".." not in atom and "(" not in atom]
        unnamed = [atom for atom in unnamed if atom not in ("true", "false")]
        return st.one_of(
            st.tuples(values, st.sampled_from(targets)).map(" AS ".join), st.sampled_from([*unnamed, "topic", "qos"])
        )


@st.composite
def _rules_of(draw: st.DrawFn, grammar: _Grammar) -> str:
    fields = draw(st.lists(grammar.fields, min_size=1, max_size=3))
    where = draw(st.one_of(st.none(), grammar.conditions))
    return f'SELECT {", ".join(fields)} FROM "#"' + ("" if where is None else f" WHERE {where}")


@st.composite
def _foreach_rules_of(draw: st.DrawFn, grammar: _Grammar) -> str:
    before = draw(st.lists(grammar.fields, max_size=1))
    array = draw(st.sampled_from(_ARRAYS))
    do = draw(st.one_of(st.none(), st.lists(grammar.fields, min_size=1, max_size=3)))
    incase = draw(st.one_of(st.none(), grammar.conditions))
    where = draw(st.one_of(st.none(), grammar.conditions))
    parts = ["FOREACH", ", ".join([*before, array])]
    parts += [] if do is None else ["DO", ", ".join(do)]
    parts += [] if incase is None else ["INCASE", incase]
    return " ".join([*parts, 'FROM "#"', *([] if where is None else ["WHERE", where])])


_LITERALS = ["0", "1", "2", "1.0", "0.5", "1.5e3", "9223372036854775807", "'a'", "''", "'1'", "'t/+'", "true", "false"]
_COLUMNS = ["topic", "clientid", "username", "qos", "flags.retain", "timestamp", "id", "event"]
_CALLS = ["topic()", "qos()", "clientid()", "username()", "msgid()", "flag('retain')", "payload()", "topic(1)"]
_PATHS = ["payload.a", "payload.b", "payload.a.b", "payload.c[1]", "payload.c[-1].a", "payload.a[qos]", "p.a", "p"]
_ARRAYS = ["payload.a AS item", "payload.b", "payload.c AS x", "[1, 'a', payload.a] AS x", "[1..3] AS x", "p AS p"]
_NATIVE_FUNCTIONS = [
    *("abs", "base64_encode", "bin2hexstr", "bitsize", "bytesize", "float", "int", "is_null", "is_not_null", "is_num"),
    *("is_int", "is_float", "is_str", "is_bool", "is_map", "md5", "sha", "sha256", "sqlserver_bin2hexstr", "str"),
]
_FUNCTIONS = [
    *(
        "str",
        "is_null",
        "is_num",
        "upper",
        "abs",
        "int",
        "json_encode",
        "length",
        "strlen",
        "map_keys",
        "float",
        "bool",
    ),
    *("first", "last", "reverse", "trim", "md5", "is_empty", "is_null_var", "map_values", "json_decode", "bin2hexstr"),
    *("floor", "round", "map_size", "map_to_entries", "concat", "coalesce", "base64_encode", "term_encode", "bitsize"),
]
_PAIRS = [
    *("coalesce", "concat", "eq", "contains", "nth", "map_get", "mget", "split", "find", "tokens", "rm_prefix", "pad"),
    *("bitand", "power", "sublist", "subbits", "join_to_string", "coalesce_ne", "regex_match", "div", "mod"),
]

_over_columns = _Grammar(
    [*_LITERALS, *_COLUMNS, *_COLUMNS, *_CALLS, "x", "payload"],
    _NATIVE_FUNCTIONS,
    ["coalesce", "concat", "div", "mod"],
    ["x", "y", "qos", "topic", "username"],
    ["true", "false", "NOT username", "NOT flags.retain", "qos IN (0, 1)", "topic =~ 't/#'", "flag('retain')"],
)
_over_payloads = _Grammar(
    [*_LITERALS, *_COLUMNS, *_PATHS, *_PATHS, *_CALLS, "payload.b[1..2]", "payload", "flags", "nothing", "[1, 'a']"],
    _FUNCTIONS,
    _PAIRS,
    ["x", "y", "p", "qos", "payload.a", "x.a", "x[1]"],
    ["true", "payload.a", "NOT payload.a", "is_null(payload.b)", "is_num(payload.a)"],
)
_over_elements = _Grammar(
    [*_LITERALS, *_PATHS, "item", "item.a", "x", "x.a", "x[1]", "topic", "qos", "p", "payload.b.a"],
    _FUNCTIONS,
    _PAIRS,
    ["x", "y", "p", "item", "x.a"],
    ["true", "is_null(item)", "is_num(x)", "NOT item.a", "x IN (1, 'a')", "payload.a"],
)


def rules() -> st.SearchStrategy[str]:
    """Rules over `#`: some of a form that Spark mostly evaluates itself, some that look into payloads, some FOREACH."""
    return st.one_of(_rules_of(_over_columns), _rules_of(_over_payloads), _foreach_rules_of(_over_elements))
