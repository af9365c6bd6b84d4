"""The bank of rule cases: what each part of the language must give, for every engine.

A case is a rule, a message, and either the output rows or a piece of the error. `expressions` and `failures` make most
of them from a single expression, evaluated as `SELECT ... AS x` on a message of the topic `t/1`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from heliograph.rules import UNDEFINED, MessageColumns, Value

PAYLOAD: Final = (
    b'{"i": 7, "neg": -7, "f": 2.5, "one": 1.0, "s": "text", "n5": "5", "t": true, "no": false, "null": null,'
    b' "l": [10, 20, 30], "mixed": [1, 1.0, "1"], "o": {"k": {"deep": "yes"}, "1": "one", "a b": "spaced"},'
    b' "js": "{\\"k\\": 7}", "big": 123456789012345678901234567890, "list": [{"v": 1}, {"v": 2}], "at": 2,'
    b' "empty": {}, "uml": "stra\\u00dfe", "han": "\\u4f60\\u597d"}'
)
GUID: Final = bytes(range(16))
RECEIVED_AT: Final = 1_700_000_000_123_456
PROPERTIES: Final = {
    "Content-Type": "text/plain",
    "Message-Expiry-Interval": "60",
    "Correlation-Data": "/w==",
    "User-Property.unit": "F",
}


@dataclass(frozen=True)
class Case:
    """One rule on one message; either rows or a piece of the error is expected."""

    sql: str
    rows: list[dict[str, Value]] | None
    error: str | None = None
    topic: str = "t/1"
    payload: bytes = PAYLOAD
    message: dict[str, Any] = field(default_factory=dict)

    def columns(self) -> MessageColumns:
        """The columns of the case's message."""
        defaults: dict[str, Any] = {
            "qos": 1,
            "clientid": "c1",
            "username": "u1",
            "properties": PROPERTIES,
            "guid": GUID,
            "received_at": RECEIVED_AT,
        }
        return MessageColumns(self.topic, self.payload, **(defaults | self.message))


def expressions(*pairs: tuple[str, Value]) -> Iterator[Case]:
    """Cases of expressions and their values."""
    for expression, value in pairs:
        yield Case(f'SELECT {expression} AS x FROM "t/#"', [{"x": value}])


def failures(*pairs: tuple[str, str]) -> Iterator[Case]:
    """Cases of expressions that fail, with a piece of the error."""
    for expression, error in pairs:
        yield Case(f'SELECT {expression} AS x FROM "t/#"', None, error)


def conditions(*pairs: tuple[str, bool]) -> Iterator[Case]:
    """Cases of WHERE."""
    for condition, passes in pairs:
        yield Case(f'SELECT 1 AS x FROM "t/#" WHERE {condition}', [{"x": 1}] if passes else [])


def condition_failures(*pairs: tuple[str, str]) -> Iterator[Case]:
    """Cases of WHERE that fail, with a piece of the error."""
    for condition, error in pairs:
        yield Case(f'SELECT 1 AS x FROM "t/#" WHERE {condition}', None, error)


_LITERALS = (
    *expressions(
        ("1", 1),
        ("007", 7),
        ("1.50", 1.5),
        ("1.5e3", 1500.0),
        ("10.25E-2", 0.1025),
        ("'text'", "text"),
        ("''", ""),
        (r"'a\nb'", r"a\nb"),
        ("'a''b'", "a''b"),
        ("'''a'''", "a"),
        ("'two\nlines'", "two\nlines"),
        ("'ä€😀'", "ä€😀"),
        ("true", True),
        ("false", False),
        ("TRUE", UNDEFINED),
        ("null", UNDEFINED),
        ("undefined", UNDEFINED),
        ("123456789012345678901234567890", 123456789012345678901234567890),
        ("[1..4]", [1, 2, 3, 4]),
        ("[-1..+1]", [-1, 0, 1]),
        ("[1, 'a', payload.t]", [1, "a", True]),
        ("[]", []),
        ("1 -- a comment\n", 1),
    ),
    *failures(("[3..1]", "ends before it starts"), ("[1..99999999999]", "more than")),
)

_PATHS = (
    *expressions(
        ("topic", "t/1"),
        ('"topic"', "t/1"),
        ("payload.i", 7),
        ("payload.one", 1.0),
        ("payload.null", None),
        ("payload.nothing", UNDEFINED),
        ("payload.nothing.deeper", UNDEFINED),
        ("payload.i.deeper", UNDEFINED),
        ("payload.null.deeper", UNDEFINED),
        ("payload.o.k.deep", "yes"),
        ("payload.o.1", "one"),
        ("payload.o.'a b'", "spaced"),
        ('payload.o."a b"', "spaced"),
        ("payload.js.k", 7),
        ("payload.s.k", UNDEFINED),
        ("payload.big", 123456789012345678901234567890),
        ("payload.l[1]", 10),
        ("payload.l[-1]", 30),
        ("payload.l[+2]", 20),
        ("payload.l[0]", UNDEFINED),
        ("payload.l[4]", UNDEFINED),
        ("payload.l[-4]", UNDEFINED),
        ("payload.i[1]", UNDEFINED),
        ("payload.l[at]", 20),
        ("payload.l[payload.at]", UNDEFINED),
        ("payload.l[s]", UNDEFINED),
        ("payload.list[2].v", 2),
        ("payload.l[1..2]", [10, 20]),
        ("payload.l[2..9]", [20, 30]),
        ("payload.l[-2..-1]", [20, 30]),
        ("payload.uml", "straße"),
    ),
    *failures(
        ("payload.l[0..1]", "cannot begin or end at 0"),
        ("payload.l[3..2]", "ends before it starts"),
        ("payload.i[1..2]", "needs an array"),
        ("payload.nothing[1..2]", "needs an array, not undefined"),
    ),
    Case('SELECT payload.a AS x FROM "t/#"', [{"x": 2}], payload=b'{"a": 1, "a": 2}'),
    Case('SELECT payload.a AS x FROM "t/#"', [{"x": UNDEFINED}], payload=b"5"),
    Case('SELECT payload.a AS x FROM "t/#"', [{"x": UNDEFINED}], payload=b'"{\\"a\\": 1}"'),
    Case('SELECT payload.a AS x FROM "t/#"', [{"x": UNDEFINED}], payload=b"[1]"),
    Case('SELECT payload.a AS x FROM "t/#"', [{"x": -0.0}], payload=b'{"a": -0.0}'),
    Case('SELECT payload.a AS x FROM "t/#"', [{"x": 2**64}], payload=b'{"a": 18446744073709551616}'),
    Case('SELECT payload.a AS x FROM "t/#"', [{"x": -(2**63) - 1}], payload=b'{"a": -9223372036854775809}'),
    Case('SELECT payload.a AS x FROM "t/#"', [{"x": 1e30}], payload=b'{"a": 1000000000000000000000000000000.0}'),
    Case('SELECT payload.a AS x FROM "t/#"', None, "not valid JSON", payload=b""),
    Case('SELECT payload.a AS x FROM "t/#"', None, "not valid JSON", payload=b'{"a": 1} tail'),
    Case('SELECT payload.a AS x FROM "t/#"', None, "not valid JSON", payload=b'{"a": 1}{"a": 2}'),
    Case('SELECT payload.a AS x FROM "t/#"', None, "not valid JSON", payload=b'{"a": NaN}'),
    Case('SELECT payload.a AS x FROM "t/#"', None, "not valid JSON", payload=b'{"a": 1e400}'),
    Case('SELECT payload.a AS x FROM "t/#"', None, "not valid JSON", payload=b'{"a": "\xff"}'),
    Case('SELECT payload.a AS x FROM "t/#"', None, "not valid JSON", payload=b'{"a": "\\ud800"}'),
    Case('SELECT payload.a AS x FROM "t/#"', None, "not valid JSON", payload=b'{"a": ' + b"9" * 5000 + b"}"),
    Case('SELECT payload.a AS x FROM "t/#"', None, "line 1, column 8", payload=b"{"),
    Case('SELECT payload AS x FROM "t/#"', [{"x": "{"}], payload=b"{"),
    Case('SELECT payload AS x FROM "t/#"', [{"x": b"\xff\x00"}], payload=b"\xff\x00"),
    Case('SELECT payload AS p, p.a AS x FROM "t/#"', [{"p": '{"a":1}', "x": 1}], payload=b'{"a":1}'),
    Case('SELECT payload AS p, p.a AS x FROM "t/#"', [{"p": "{", "x": UNDEFINED}], payload=b"{"),
)

_COLUMNS = (
    *expressions(
        ("id", "000102030405060708090A0B0C0D0E0F"),
        ("clientid", "c1"),
        ("username", "u1"),
        ("qos", 1),
        ("flags", {"dup": False, "retain": False}),
        ("flags.retain", False),
        ("timestamp", 1_700_000_000_123),
        ("publish_received_at", 1_700_000_000_123),
        ("event", "message.publish"),
        ("peerhost", UNDEFINED),
        ("pub_props.'Content-Type'", "text/plain"),
        ("pub_props.'Message-Expiry-Interval'", 60),
        ("pub_props.'Correlation-Data'", b"\xff"),
        ("pub_props.'User-Property'.unit", "F"),
    ),
    Case('SELECT username AS x FROM "t/#"', [{"x": UNDEFINED}], message={"username": None}),
    Case(
        'SELECT pub_props AS x FROM "t/#"',
        [{"x": {"Correlation-Data": "*", "Message-Expiry-Interval": "soon"}}],
        message={"properties": {"Correlation-Data": "*", "Message-Expiry-Interval": "soon"}},
    ),
    Case('SELECT pub_props AS x FROM "t/#"', [{"x": {}}], message={"properties": None}),
    Case(
        'SELECT *, 2 AS qos FROM "t/#"',
        [
            {
                "id": "000102030405060708090A0B0C0D0E0F",
                "clientid": "c1",
                "payload": "p",
                "topic": "t/1",
                "qos": 2,
                "flags": {"dup": False, "retain": True},
                "pub_props": {},
                "timestamp": 1_700_000_000_123,
                "publish_received_at": 1_700_000_000_123,
                "event": "message.publish",
            }
        ],
        payload=b"p",
        message={"username": None, "properties": None, "retain": True},
    ),
)

_ARITHMETIC = (
    *expressions(
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("7 - 2 - 1", 4),
        ("-payload.i", -7),
        ("- -3", 3),
        ("+payload.f", 2.5),
        ("4 / 2", 2.0),
        ("payload.i / 2", 3.5),
        ("1 + 1.0", 2.0),
        ("payload.i - 0.5", 6.5),
        ("0.1 + 0.2", 0.30000000000000004),
        ("payload.big + 1", 123456789012345678901234567891),
        ("9223372036854775807 + payload.i", 9223372036854775814),
        ("qos + 1", 2),
        ("qos * 2 - 5", -3),
        ("timestamp - 1700000000000", 123),
        ("timestamp / 1000.0", 1700000000.123),
        ("timestamp * timestamp", 1_700_000_000_123**2),
        ("-7 div 2", -3),
        ("-7 mod 2", -1),
        ("7 mod -2", 1),
        ("qos mod 2", 1),
        ("timestamp div 1000", 1_700_000_000),
        ("div(7, 2)", 3),
        ("mod(7, 2)", 1),
        ("'a' + 'b'", "ab"),
        ("'1' + 2", "12"),
        ("2 + '1'", "21"),
        ("'x' + payload.nothing", "xundefined"),
        ("'x' + payload.null", "xnull"),
        ("'x' + true", "xtrue"),
        ("'x' + 1.50", "x1.5"),
        ("'x' + 2.0", "x2.0"),
        ("'x' + 0.0000003142", "x0.0000003142"),
        ("'x' + 100.0", "x100.0"),
        ("'x' + payload.l", "x[10,20,30]"),
        ("'x' + payload.big", "x123456789012345678901234567890"),
        ("topic + '/' + clientid", "t/1/c1"),
        ("qos + 'x'", "1x"),
        ("flags.retain + 'x'", "falsex"),
        ("payload.s + pub_props.'Correlation-Data'", b"text\xff"),
    ),
    *failures(
        ("payload.null - 32", "'-' needs two numbers, not null"),
        ("(payload.nothing - 32) / 1.8", "'-' needs two numbers, not undefined"),
        ("payload.s - 1", "'-' needs two numbers, not the string 'text'"),
        ("payload.n5 * 2", "'*' needs two numbers"),
        ("true + 1", "'+' needs two numbers, or a string to join"),
        ("payload.l + 1", "'+' needs two numbers"),
        ("1 / 0", "division by zero"),
        ("qos / 0.0", "division by zero"),
        ("qos / payload.no", "'/' needs two numbers"),
        ("1 div 0", "division by zero"),
        ("1.5 div 2", "must be an integer"),
        ("1.0e308 * 10", "larger than a 64-bit float"),
        ("payload.big * 1.0e300", "larger than a 64-bit float"),
        ("-payload.s", "a sign needs a number"),
        ("-true", "a sign needs a number"),
    ),
    Case(
        'SELECT payload.a * payload.a AS x FROM "t/#"',
        None,
        "more than 4,300 digits",
        payload=b'{"a":' + b"9" * 4000 + b"}",
    ),
    Case('SELECT username + 1 AS x FROM "t/#"', None, "'+' needs two numbers", message={"username": None}),
    Case("SELECT username + '' AS x FROM \"t/#\"", [{"x": "undefined"}], message={"username": None}),
)

_COMPARISON = (
    *conditions(
        ("1 = 1.0", True),
        ("1 != 1.0", False),
        ("1 <> 2", True),
        ("2 > 1", True),
        ("2 >= 2.0", True),
        ("2 < 1", False),
        ("1 <= 0", False),
        ("'a' < 'b'", True),
        ("'a' = 'a'", True),
        ("'B' < 'a'", True),
        ("'ä' > 'z'", True),
        ("'😀' > '\uffff'", True),
        ("payload.nothing = payload.nada", True),
        ("payload.nothing <= payload.nada", True),
        ("payload.nothing >= payload.nada", True),
        ("payload.nothing != payload.nada", False),
        ("payload.nothing < payload.nada", False),
        ("payload.nothing != 1", False),
        ("payload.nothing = 1", False),
        ("1 > payload.nothing", False),
        ("payload.n5 = 5", True),
        ("5.0 = payload.n5", True),
        ("'1.5e3' = 1500", True),
        ("'-5' < 0", True),
        ("payload.t = 'true'", True),
        ("payload.null = 'null'", True),
        ("payload.null > 'abc'", True),
        ("payload.null >= 40", True),
        ("payload.null > 40", True),
        ("payload.null = 0", False),
        ("payload.null != 0", True),
        ("payload.null < 40", False),
        ("40 <= payload.null", True),
        ("payload.no > 5", True),
        ("payload.no < payload.null", True),
        ("payload.null < payload.t", True),
        ("payload.o > payload.t", True),
        ("payload.l > payload.o", True),
        ("payload.s > payload.l", True),
        ("[1, 2] = [1.0, 2]", True),
        ("[1, 2] < [1, 3]", True),
        ("[1] < [1, 0]", True),
        ("payload.empty < payload.o", True),
        ("payload.big > 9223372036854775807", True),
        ("9007199254740993 = 9007199254740992.0", False),
        ("qos = 1", True),
        ("qos > 0.5", True),
        ("topic = 't/1'", True),
        ("flags.retain = true", False),
        ("flags.retain = 'false'", True),
        ("username = 'u1'", True),
        ("qos = '1'", True),
        ("topic =~ 't/+'", True),
        ("topic =~ 'u/#'", False),
        ("'a/b/c' =~ 'a/#'", True),
        ("'$SYS/x' =~ '#'", False),
        ("payload.nothing =~ '#'", False),
    ),
    *condition_failures(
        ("payload.s > 5", "is not the text of a number"),
        ("5 != payload.s", "is not the text of a number"),
        ("'' = 5", "is not the text of a number"),
        ("' 5' = 5", "is not the text of a number"),
        ("'1e3' = 1000", "is not the text of a number"),
        ("topic > 5", "is not the text of a number"),
        ("topic ~= 't/1'", "no comparison ~="),
        ("topic =~ 'a/#/b'", "must stand alone and last"),
        ("1 =~ '#'", "both strings"),
    ),
    *expressions(("1 < 2", True), ("payload.nothing = 1", False), ("qos > 0", True), ("payload.f > 2", True)),
    Case("SELECT 1 AS x FROM \"t/#\" WHERE username != 'u'", [], message={"username": None}),
    Case('SELECT 1 AS x FROM "t/#" WHERE username = nothing', [{"x": 1}], message={"username": None}),
    Case("SELECT 1 AS x FROM \"t/#\" WHERE username =~ '#'", [], message={"username": None}),
)

_CONDITIONS = (
    *conditions(
        ("true", True),
        ("false", False),
        ("(true)", True),
        ("qos = 1 AND topic = 't/1'", True),
        ("qos = 2 OR topic = 't/1'", True),
        ("qos = 2 or qos = 3 and true", False),
        ("qos = 1 OR payload.s > 5", True),
        ("qos = 2 AND payload.s > 5", False),
        ("NOT qos = 2", True),
        ("NOT (qos = 1 AND qos = 2)", True),
        ("NOT payload.no", True),
        ("NOT payload.t", False),
        ("NOT payload.nothing", False),
        ("NOT payload.i", False),
        ("NOT topic", False),
        ("NOT is_null(topic)", True),
        ("NOT NOT payload.t", True),
        ("is_null(payload.nothing)", True),
        ("qos IN (1, 2)", True),
        ("qos IN (3)", False),
        ("qos NOT IN (3)", True),
        ("2 IN (2.0)", False),
        ("2 in ('2')", False),
        ("topic in ('a', 't/1')", True),
        ("payload.mixed IN ([1, 1.0, '1'])", True),
        ("payload.nothing IN (payload.nada)", True),
        ("flags.retain IN (true, false)", True),
        ("NOT qos IN (1)", False),
        ("(qos = 2 OR qos = 1) AND NOT (topic = 'u')", True),
    ),
    *condition_failures(
        ("payload.t", "write payload.t = true"),
        ("qos", "a condition needs"),
        ("1", "a condition needs"),
        ("'a'", "a condition needs"),
        ("1 + 1", "a condition needs"),
        ("abs(-1)", "abs gives the integer 1"),
        ("payload.t AND true", "a condition needs"),
        ("nosuch(1)", "there is no function nosuch"),
    ),
    Case("SELECT 1 AS x FROM \"t/#\" WHERE username IN ('u')", [], message={"username": None}),
    Case('SELECT 1 AS x FROM "t/#" WHERE NOT username', [], message={"username": None}),
)

_CASES_OF_CASE = (
    *expressions(
        ("CASE WHEN payload.i > 5 THEN 'high' ELSE 'low' END", "high"),
        ("CASE WHEN payload.i > 9 THEN 'high' WHEN payload.i > 6 THEN 'mid' ELSE 'low' END", "mid"),
        ("CASE WHEN payload.i > 9 THEN 'high' END", UNDEFINED),
        ("CASE WHEN payload.i < 9 THEN 1 / payload.i ELSE 1 / 0 END", 1 / 7),
        ("CASE payload.i WHEN 7 THEN 'seven' ELSE 'other' END", "seven"),
        ("CASE payload.one WHEN 1 THEN 'int' WHEN '1' THEN 'text' WHEN 1.0 THEN 'float' END", "float"),
        ("CASE payload.nothing WHEN 1 THEN 1 END", UNDEFINED),
        ("(CASE qos WHEN 1 THEN 'one' ELSE 'more' END)", "one"),
        ("CASE WHEN qos = 1 THEN 'x' END", "x"),
        ("CASE WHEN qos = 2 THEN 'x' END", UNDEFINED),
        ("CASE WHEN qos = 2 THEN 1 WHEN qos > 2 THEN 2 ELSE 3 END", 3),
        ("CASE topic WHEN 't/1' THEN qos WHEN 'u' THEN 0 END", 1),
        ("upper(CASE WHEN qos = 1 THEN 'x' ELSE 'y' END)", "X"),
        ("CASE WHEN qos = 1 THEN 1 ELSE 'x' END", 1),
        ("CASE WHEN qos = 1 THEN qos > 0 END", True),
    ),
    *failures(
        ("CASE WHEN payload.t THEN 1 END", "a condition needs"),
        ("CASE WHEN 1 THEN 1 END", "a condition needs"),
        ("CASE WHEN qos = 1 THEN 1 / 0 END", "division by zero"),
    ),
)

_FIELDS = (
    Case('SELECT topic, qos FROM "t/#"', [{"topic": "t/1", "qos": 1}]),
    Case('SELECT topic t FROM "t/#"', [{"t": "t/1"}]),
    Case('select topic as "a b" from "t/#" where qos > 0', [{"a b": "t/1"}]),
    Case('SELECT payload.i AS y, y + 1 AS z FROM "t/#"', [{"y": 7, "z": 8}]),
    Case('SELECT 5 AS qos, qos + 1 AS z FROM "t/#"', [{"qos": 5, "z": 6}]),
    Case('SELECT qos + 1 AS qos FROM "t/#" WHERE qos = 2', [{"qos": 2}]),
    Case('SELECT payload.nothing AS topic, topic AS z FROM "t/#"', [{"topic": UNDEFINED, "z": "t/1"}]),
    Case(
        'SELECT username AS topic, topic AS z FROM "t/#"',
        [{"topic": UNDEFINED, "z": "t/1"}],
        message={"username": None},
    ),
    Case('SELECT payload.i AS y FROM "t/#" WHERE y > 6', [{"y": 7}]),
    Case('SELECT payload.i AS y FROM "t/#" WHERE payload.f > 6', []),
    Case('SELECT payload.s - 1 AS y FROM "t/#" WHERE false', None, "'-' needs two numbers"),
    Case('SELECT payload.o.k.deep FROM "t/#"', [{"payload": {"o": {"k": {"deep": "yes"}}}}]),
    Case('SELECT payload.i FROM "t/#" WHERE payload.f > 2', [{"payload": {"i": 7}}]),
    Case('SELECT payload.i, payload.f FROM "t/#"', [{"payload": {"i": 7, "f": 2.5}}]),
    Case('SELECT payload.l[2] FROM "t/#"', [{"payload": {"l": [20]}}]),
    Case('SELECT payload.l[1..2] FROM "t/#"', [{"payload": {"l": [10, 20]}}]),
    Case("SELECT 'lit' FROM \"t/#\"", [{"lit": "lit"}]),
    Case('SELECT 1 AS a.b.c, 2 AS a.d FROM "t/#"', [{"a": {"b": {"c": 1}, "d": 2}}]),
    Case('SELECT 1 AS a, 2 AS a.b FROM "t/#"', [{"a": {"b": 2}}]),
    Case('SELECT payload.l AS a, 9 AS a[2] FROM "t/#"', [{"a": [10, 9, 30]}]),
    Case('SELECT payload.l AS a, 9 AS a[-1] FROM "t/#"', [{"a": [10, 20, 9]}]),
    Case('SELECT payload.l AS a, 9 AS a[7] FROM "t/#"', [{"a": [10, 20, 30]}]),
    Case('SELECT payload.l AS a, 9 AS a[0] FROM "t/#"', [{"a": [9, 10, 20, 30]}]),
    Case('SELECT payload.l AS a, 9 AS a[-0] FROM "t/#"', [{"a": [10, 20, 30, 9]}]),
    Case('SELECT payload.list AS a, 9 AS a[0].c FROM "t/#"', [{"a": [{"c": 9}, {"v": 1}, {"v": 2}]}]),
    Case('SELECT payload.list AS a, 9 AS a[2].c FROM "t/#"', [{"a": [{"v": 1}, {"v": 2, "c": 9}]}]),
    Case('SELECT 9 AS a[5] FROM "t/#"', [{"a": [9]}]),
    Case('SELECT payload.l AS a, payload.at AS i, 9 AS a[i] FROM "t/#"', [{"a": [10, 9, 30], "i": 2}]),
    Case('SELECT payload, 9 AS payload.a FROM "t/#"', [{"payload": {"a": 9, "b": 2}}], payload=b'{"a": 1, "b": 2}'),
    Case(
        'SELECT *, 9 AS payload.a, payload.b AS z FROM "t/#" WHERE payload.a = 9',
        None,
        "the payload to be edited",
        payload=b"x",
    ),
    Case('SELECT payload, 9 AS payload.a FROM "t/#"', None, "the payload to be edited", payload=b"x"),
    Case('SELECT 9 AS payload.a FROM "t/#"', [{"payload": {"a": 9}}], payload=b"x"),
    Case('SELECT payload AS p, 1 AS p.z FROM "t/#"', [{"p": {"z": 1}}], payload=b'{"a": 1}'),
    Case('SELECT 9 AS payload.i, payload.i AS x, payload.f AS y FROM "t/#"', [{"payload": {"i": 9}, "x": 9, "y": 2.5}]),
    Case('SELECT 1 AS x FROM "u/#"', []),
    Case('SELECT 1 AS x FROM "u/#", "t/+"', [{"x": 1}]),
    Case("SELECT 1 AS x FROM t WHERE topic = 't'", [{"x": 1}], topic="t"),
    Case('SELECT 1 AS x FROM "#"', [], topic="$SYS/a"),
    Case('SELECT 1 AS x FROM "+/a"', [], topic="$SYS/a"),
    Case('SELECT 1 AS x FROM "$SYS/#"', [{"x": 1}], topic="$SYS/a"),
    Case('SELECT 1 AS x FROM "a/#"', [{"x": 1}], topic="a"),
    Case('SELECT 1 AS x FROM "a/+"', [{"x": 1}], topic="a/"),
    Case('SELECT 1 AS x FROM "a/+"', [], topic="a/b\n/c"),
)

_FUNCTIONS = (
    *expressions(
        ("abs(-3)", 3),
        ("abs(-2.5)", 2.5),
        ("ceil(1.2)", 2),
        ("ceil(-1.2)", -1),
        ("floor(-1.2)", -2),
        ("floor(5)", 5),
        ("round(2.5)", 3),
        ("round(-2.5)", -3),
        ("round(0.49999999999999994)", 0),
        ("sqrt(9)", 3.0),
        ("power(2, 10)", 1024.0),
        ("eq(1, 1.0)", True),
        ("eq(1, '1')", False),
        ("is_null(payload.nothing)", True),
        ("is_null(payload.null)", False),
        ("is_not_null(payload.null)", True),
        ("is_null_var(payload.null)", True),
        ("is_not_null_var(payload.i)", True),
        ("is_num(payload.f)", True),
        ("is_num(true)", False),
        ("is_int(payload.one)", False),
        ("is_float(payload.one)", True),
        ("is_str(payload.s)", True),
        ("is_bool(payload.t)", True),
        ("is_array(payload.l)", True),
        ("is_map(payload.o)", True),
        ("is_map(payload.js)", False),
        ("bool('true')", True),
        ("bool(0.0)", False),
        ("int('-3.14')", -4),
        ("int('3.1415e2')", 314),
        ("int(-3.14)", -4),
        ("int(true)", 1),
        ("int('007')", 7),
        ("float('20')", 20.0),
        ("float('3.14E-4')", 0.000314),
        ("float(2)", 2.0),
        ("float(3.14159, 2)", 3.14),
        ("str(payload.o.k)", '{"deep":"yes"}'),
        ("str(payload.null)", "null"),
        ("str(payload.nothing)", "undefined"),
        ("str(1.0e20)", "100000000000000000000.0"),
        ("str(0.1 + 0.2)", "0.3"),
        ("str(payload.big)", "123456789012345678901234567890"),
        ("lower('ÄB')", "äb"),
        ("upper('straße')", "STRASSE"),
        ("trim('  a b\t\r\n')", "a b"),
        ("ltrim('  a ')", "a "),
        ("rtrim('  a ')", "  a"),
        ("trim('\u00a0a\u3000')", "\u00a0a\u3000"),
        ("trim('\u200e a\u2028')", "a"),
        ("strlen(payload.han)", 2),
        ("strlen('e\u0301👨‍👩‍👧')", 2),
        ("strlen('a\r\nb')", 3),
        ("bytesize(payload.han)", 6),
        ("substr('abcdef', 2)", "cdef"),
        ("substr('abcdef', 2, 3)", "cde"),
        ("substr('abc', 9)", ""),
        ("substr(payload.han, 1, 1)", "好"),
        ("concat('a', payload.nothing)", "aundefined"),
        ("concat('a', 1.5)", "a1.5"),
        ("concat(['a', 1, true])", "a1true"),
        ("find('a/b/c', '/')", "/b/c"),
        ("find('a/b/c', '/', 'trailing')", "/c"),
        ("find('abc', 'x')", ""),
        ("replace('aXbX', 'X', '-')", "a-b-"),
        ("replace('aXbX', 'X', '-', 'leading')", "a-bX"),
        ("replace('aXbX', 'X', '-', 'trailing')", "aXb-"),
        ("replace('abc', '', '-')", "abc"),
        ("split('a,,b', ',')", ["a", "b"]),
        ("split('a,,b', ',', 'notrim')", ["a", "", "b"]),
        ("split('a/b/c', '/', 'leading')", ["a", "b/c"]),
        ("split('a/b/c', '/', 'trailing')", ["a/b", "c"]),
        ("split('/b', '/', 'leading_notrim')", ["", "b"]),
        ("coalesce(payload.nothing, 5)", 5),
        ("coalesce(payload.null, 5)", None),
        ("coalesce([payload.nothing, payload.nada])", UNDEFINED),
        ("map('{\"a\": 1}')", {"a": 1}),
        ("map_new()", {}),
        ("map_get('k.deep', payload.o)", "yes"),
        ("map_get('k.none', payload.o, 0)", 0),
        ("map_get('k', payload.js)", 7),
        ("map_get('k', 5)", UNDEFINED),
        ("mget('a b', payload.o)", "spaced"),
        ("map_keys(payload.o)", ["1", "a b", "k"]),
        ("map_values(payload.js)", [7]),
        ("map_size(payload.empty)", 0),
        ("nth(2, payload.l)", 20),
        ("first(payload.l)", 10),
        ("last(payload.l)", 30),
        ("length(payload.l)", 3),
        ("contains(1.0, payload.mixed)", True),
        ("contains(1.0, [1])", False),
        ("json_decode('[1, 1.0, null]')", [1, 1.0, None]),
        ("json_encode(payload.o.k)", '{"deep":"yes"}'),
        ("json_encode(payload.big)", "123456789012345678901234567890"),
        ("json_encode([payload.nothing])", '["undefined"]'),
        ("base64_encode('a')", "YQ=="),
        ("base64_decode('/w==')", b"\xff"),
        ("md5('a')", "0cc175b9c0f1b6a831c399e269772661"),
        ("sha('a')", "86f7e437faa5a7fce15d1ddcb9eaeaea377667b8"),
        ("sha256('a')", "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"),
        ("rfc3339_to_unix_ts('2013-01-01T06:00:00Z')", 1357020000),
        ("rfc3339_to_unix_ts('2013-01-01 06:00:00.123987+01:00', 'millisecond')", 1357016400123),
        ("rfc3339_to_unix_ts('1969-12-31T23:59:59Z', 'microsecond')", -1_000_000),
        ("null()", UNDEFINED),
        ("is_int(now_timestamp('nanosecond'))", True),
    ),
    *failures(
        ("nosuch(1)", "there is no function nosuch"),
        ("UPPER('a')", "there is no function UPPER"),
        ("a.b.c(1)", "there is no function a.b.c"),
        ("upper()", "upper: it takes 1 argument (S text), not 0"),
        ("upper(1)", "upper: argument 1 must be a string, not the integer 1"),
        ("upper(payload.nothing)", "not undefined"),
        ("upper(pub_props.'Correlation-Data')", "is not valid UTF-8"),
        ("abs('1')", "abs: argument 1 must be a number"),
        ("abs(true)", "abs: argument 1 must be a number"),
        ("sqrt(-1)", "sqrt: it is not defined for -1"),
        ("power(10, 400)", "larger than a 64-bit float"),
        ("bool('yes')", "neither true nor false"),
        ("bool(2)", "neither true nor false"),
        ("int('1e2')", "is not the text of a number"),
        ("int('')", "is not the text of a number"),
        ("int(payload.null)", "neither a boolean"),
        ("float(true)", "neither a number"),
        ("float('1e3')", "is not the text of a number"),
        ("float(1.5, 0)", "decimals must be"),
        ("substr('a', -1)", "must not be negative"),
        ("nth(0, payload.l)", "has no element 0"),
        ("nth(4, payload.l)", "has no element 4"),
        ("first(json_decode('[]'))", "the array is empty"),
        ("length(payload.s)", "must be an array"),
        ("json_decode('{} x')", "not valid JSON"),
        ("base64_decode('*')", "base64_decode"),
        ("replace('a', 'a', 'b', 'middle')", "must be 'all', 'leading' or 'trailing'"),
        ("split('a', 'b', 'x')", "must be one of"),
        ("map_size('[]')", "neither a map"),
        ("rfc3339_to_unix_ts('2013-01-01')", "is no RFC 3339 time"),
        ("rfc3339_to_unix_ts('2013-02-30T00:00:00Z')", "there is no such time"),
        ("rfc3339_to_unix_ts('2013-01-01T00:00:00Z', 'hour')", "the unit must be one of"),
    ),
)

_WEATHER_1: Final = (
    "SELECT topic, payload.origin AS station, payload.time_hour AS observed_at, payload.temp AS temp_f, "
    '(payload.temp - 32) / 1.8 AS temp_c, payload.wind_gust AS gust_mph FROM "weather/+/obs"'
)
_WEATHER_2: Final = (
    "SELECT payload.origin AS station, payload.wind_gust AS gust_mph, payload.time_hour AS observed_at "
    'FROM "weather/+/obs" WHERE payload.wind_gust >= 40'
)
_AT: Final = "2013-01-01T06:00:00Z"


def _observation(temp: str, gust: str) -> bytes:
    return f'{{"origin": "EWR", "time_hour": "{_AT}", "temp": {temp}, "wind_gust": {gust}}}'.encode()


_WEATHER = (
    Case(
        _WEATHER_1,
        [
            {
                "topic": "weather/EWR/obs",
                "station": "EWR",
                "observed_at": _AT,
                "temp_f": 39.02,
                "temp_c": (39.02 - 32) / 1.8,
                "gust_mph": None,
            }
        ],
        topic="weather/EWR/obs",
        payload=_observation("39.02", "null"),
    ),
    Case(
        _WEATHER_1,
        None,
        "'-' needs two numbers, not null",
        topic="weather/EWR/obs",
        payload=_observation("null", "null"),
    ),
    Case(
        _WEATHER_2,
        [{"station": "EWR", "gust_mph": 40.27658, "observed_at": _AT}],
        topic="weather/EWR/obs",
        payload=_observation("39.02", "40.27658"),
    ),
    Case(_WEATHER_2, [], topic="weather/EWR/obs", payload=_observation("39.02", "39.99")),
    # Null is above every number, so an observation without a gust passes.
    Case(
        _WEATHER_2,
        [{"station": "EWR", "gust_mph": None, "observed_at": _AT}],
        topic="weather/EWR/obs",
        payload=_observation("39.02", "null"),
    ),
)

BANK: Final = (
    *_LITERALS,
    *_PATHS,
    *_COLUMNS,
    *_ARITHMETIC,
    *_COMPARISON,
    *_CONDITIONS,
    *_CASES_OF_CASE,
    *_FIELDS,
    *_FUNCTIONS,
    *_WEATHER,
)

each_case = pytest.mark.parametrize("case", BANK, ids=[f"{position}: {case.sql}" for position, case in enumerate(BANK)])
