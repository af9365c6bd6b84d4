"""Cases that a reader of the language's description would guess wrong, in its order."""

from typing import Final

from heliograph.rules.values import UNDEFINED
from rules.cases import Case, condition_failures, conditions, expressions, failures

_VALUES: Final = (
    *expressions(
        ("str(2.0)", "2.0"),
        ("str(0.0000003142)", "0.0000003142"),
        ("str(0.00000000001)", "0.0"),
        ("str(100.0)", "100.0"),
        ("str(1.0e22)", "10000000000000000000000.0"),
        ("str(-0.5)", "-0.5"),
        ("str(1.23456789012345)", "1.2345678901"),
        ("str(payload.o)", '{"k":{"deep":"yes"},"1":"one","a b":"spaced"}'),
        ("json_encode([payload.nothing, payload.null, 1.0])", '["undefined",null,1.0]'),
        ("json_decode('1e2')", 100.0),
        ("NULL", UNDEFINED),
        ("is_null(null)", True),
    ),
)

_LEXER = (
    *expressions(
        ('"topic"', "t/1"),
        ("'a' -- comment\n + 'b'", "ab"),
        ("'''a''b'''", "a''b"),
        ("''''", ""),
        ("'-- no comment'", "-- no comment"),
        ("1.5e3", 1500.0),
        ("- - 1", 1),
        ("1 - -1", 2),
        ("1-1", 0),
        ("[-2..-1]", [-2, -1]),
        ("DIV", UNDEFINED),
        ("True", UNDEFINED),
    ),
    Case('select topic As a$b@c~d_1 fRoM "t/#" whERe TRUE = TRUE', [{"a$b@c~d_1": "t/1"}]),
    Case('\r\n\tSELECT\ttopic\rFROM "t/#" \n', [{"topic": "t/1"}]),
    Case('SELECT clientid FROM "t/#" WHERE clientid = "c1"', []),
    Case('SELECT 1 AS "SELECT", "SELECT" AS y FROM "t/#"', [{"SELECT": 1, "y": 1}]),
    Case("SELECT 1 AS x FROM 't/#', u, \"v\"", [{"x": 1}]),
    Case(
        "SELECT payload.1 AS x, payload.'1.5' AS y FROM \"t/#\"", [{"x": "a", "y": "b"}], payload=b'{"1":"a","1.5":"b"}'
    ),
    Case("SELECT pub_props.'User-Property'.unit AS x FROM \"t/#\"", [{"x": "F"}]),
)

_SELECT = (
    Case(
        'SELECT payload.a.b FROM "t/#"',
        [{"payload": {"a": {"b": UNDEFINED}}}],
        payload=b"{}",
    ),
    Case('SELECT topic AS payload, payload.x AS y FROM "t/#"', [{"payload": "t/1", "y": 1}], payload=b'{"x":1}'),
    Case('SELECT payload.x AS y FROM "t/#" WHERE y > 1 AND payload.x > 1', [{"y": 2}], payload=b'{"x":2}'),
    Case('SELECT payload.x AS qos FROM "t/#" WHERE qos = 1', [{"qos": UNDEFINED}], payload=b"{}"),
    Case('SELECT 1 AS a.b[1].c FROM "t/#"', [{"a": {"b": [{"c": 1}]}}]),
    Case('SELECT payload.l AS a, 9 AS a[-9] FROM "t/#"', [{"a": [10, 20, 30]}]),
    Case('SELECT payload.l AS a, 9 AS a[-0].z FROM "t/#"', [{"a": [10, 20, 30, {"z": 9}]}]),
    Case('SELECT 9 AS a[0] FROM "t/#"', [{"a": [9]}]),
    Case(
        "SELECT payload, 'X' AS payload.data[1].name FROM \"t/#\"",
        [{"payload": {"data": [{"name": "X"}]}}],
        payload=b"{}",
    ),
    Case(
        "SELECT 'X' AS payload.data[1].name FROM \"t/#\"", [{"payload": {"data": [{"name": "X"}]}}], payload=b'{"k":1}'
    ),
    Case('SELECT *, 1 AS payload.x FROM "t/#" WHERE payload.y = 2', [], payload=b'{"y":3}'),
    Case('SELECT json_decode(payload) AS p, 1 AS p.z FROM "t/#"', [{"p": {"a": 1, "z": 1}}], payload=b'{"a":1}'),
    Case('SELECT payload AS p FROM "t/#" WHERE p.a = 1', [{"p": '{"a":1}'}], payload=b'{"a":1}'),
)

_FOREACH = (
    Case(
        'FOREACH payload.l AS x FROM "t/#" WHERE length(x) = 2',
        [],
        payload=b'{"l": [1]}',
    ),
    Case("FOREACH jq('.l[]', payload) AS x DO x * 2 AS y FROM \"t/#\"", [{"y": 2}, {"y": 4}], payload=b'{"l": [1, 2]}'),
    Case('FOREACH payload.l DO item AS x, topic FROM "t/#"', [{"x": 1, "topic": "t/1"}], payload=b'{"l": [1]}'),
    Case('FOREACH payload.l AS qos DO qos FROM "t/#"', [{"qos": 7}], payload=b'{"l": [7]}'),
    Case('FOREACH payload.m AS x DO x FROM "t/#"', [], payload=b'{"m": {"a": 1}}'),
    Case('FOREACH payload.l AS x DO x INCASE x FROM "t/#"', None, "a condition needs", payload=b'{"l": [true]}'),
    Case('FOREACH payload.l AS x DO 1 / x AS y INCASE x > 0 FROM "t/#"', [{"y": 0.5}], payload=b'{"l": [0, 2]}'),
)

_PATHS = (
    *expressions(
        ("payload.js", '{"k": 7}'),
        ("payload.l[-3]", 10),
        ("payload.l[1..1]", [10]),
        ("payload.l[-1..-1]", [30]),
        ("payload.l[-9..2]", [10, 20]),
        ("payload.list[1].v", 1),
        ("payload.o.k.deep.deeper", UNDEFINED),
        ("flags.nothing", UNDEFINED),
        ("topic.x", UNDEFINED),
    ),
    *failures(("payload.l[-1..-2]", "ends before it starts"), ("payload.l[1..0]", "cannot begin or end at 0")),
)

_CONDITIONS = (
    *conditions(
        ("NOT (payload.nothing = 1)", True),
        ("NOT payload.nothing = 1", True),
        ("payload.nothing <> payload.nada", False),
        ("qos NOT IN (2, 3) AND NOT (qos = 2 OR qos = 3)", True),
        ("1 IN (payload.one)", False),
        ("payload.nothing IN (1)", False),
        ("payload.null = payload.nothing", False),
        ("payload.null = payload.null", True),
        ("'10' > 9", True),
        ("'10' > '9'", False),
        ("'5.0' = 5", True),
        ("'abc' > payload.l", True),
        ("payload.l > 1000", True),
        ("payload.t > 1000", True),
        ("payload.t = 1", False),
        ("'true' = payload.t", True),
        ("true = 'TRUE'", False),
        ("[1, 2] > [1]", True),
        ("payload.mixed = [1, 1, '1']", True),
        ("'a/b' =~ '+/b'", True),
        ("is_num(1) AND is_str('a') OR 1 / 0 > 1", True),
    ),
    *condition_failures(
        ("payload.ok", "write payload.ok = true"),
        ("length(payload.l)", "length gives the integer 3"),
        ("payload.t OR true", "a condition needs"),
        ("NOT nosuch(1)", "there is no function nosuch"),
        ("'1.' = 1", "is not the text of a number"),
        ("qos IN (1 / 0)", "division by zero"),
        ("qos NOT IN (nosuch(1))", "there is no function nosuch"),
        *((f"'abc' {sign} 5", "is not the text of a number") for sign in ("=", "!=", "<>", "<", "<=", ">=")),
    ),
)

_CASE_AND_ARITHMETIC = (
    *expressions(
        ("CASE payload.n5 WHEN 5 THEN 'int' WHEN '5' THEN 'text' END", "text"),
        ("CASE WHEN payload.nothing = 1 THEN 1 ELSE 2 END", 2),
        ("CASE payload.nothing WHEN payload.nada THEN 'both' END", "both"),
        ("str(CASE WHEN qos = 1 THEN 'a' END) + 'b'", "ab"),
        ("7 / 7", 1.0),
        ("7.5 - 0.5", 7.0),
        ("2 * 3 div 4", 1),
        ("10 div 3 * 3", 9),
        ("-7 mod -2", -1),
        ("1 + '1' + 1", "111"),
        ("1 + 1 + '1'", "21"),
        ("payload.l + ''", "[10,20,30]"),
    ),
    *failures(
        ("7 div 2.0", "must be an integer"),
        ("7 mod 0", "division by zero"),
        ("'7' div 2", "must be an integer"),
        ("1 + true", "'+' needs two numbers"),
        ("payload.nothing + 1", "'+' needs two numbers"),
        ("+'1'", "a sign needs a number"),
        ("CASE 1 / 0 WHEN 1 THEN 1 END", "division by zero"),
    ),
)

_FUNCTIONS = (
    *expressions(
        ("round(-0.5)", -1),
        ("int('3.99')", 3),
        ("int(-0.5)", -1),
        ("float('3.14', 1)", 3.1),
        ("pad('ab', 5, 'both', '*')", "*ab**"),
        ("tokens('a,b;c', ',;')", ["a", "b", "c"]),
        ("split('a/b/c', '/', 'leading_notrim')", ["a", "b/c"]),
        ("split('a/b/', '/', 'trailing')", ["a/b"]),
        ("split('a/b/', '/', 'trailing_notrim')", ["a/b", ""]),
        ("regex_match('ä', '^..$')", True),
        ("regex_extract('a1b2', '([a-z])([0-9])')", ["a", "1"]),
        ("unescape('\\x41G')", "AG"),
        ("upper('ß')", "SS"),
        ("strlen('👨‍👩‍👧')", 1),
        ("hexstr2bin('abc')", b"\n\xbc"),
        ("base64_decode('YQ==')", "a"),
        ("map_get('a.b', '{\"a\":{\"b\":null}}', 5)", None),
        ("mget('a.b', '{\"a.b\":1}')", 1),
        ("coalesce(payload.null, 1)", None),
        ("coalesce_ne('', payload.null)", None),
        ("contains(1, [1.0])", False),
        ("eq('1', 1)", False),
        ("subbits('ab', 9, 100)", 98),
        ("timezone_to_offset_seconds('+0130')", 5400),
        ("format_date('second', 3600, '%Y-%m-%dT%H:%M:%S', 0)", "1970-01-01T01:00:00"),
        ("rfc3339_to_unix_ts('1970-01-01t00:00:01.999z')", 1),
        ("join_to_sql_values_string([1, 1.5, payload.null])", "1, 1.5, 'null'"),
        ("sprintf('~5s|~-5s|', 'ab', 'ab')", "   ab|ab   |"),
        ("ascii('€')", 0xE2),
    ),
    *failures(("is_empty('  ')", "is_empty")),
)

TRICKY_CASES: Final[tuple[Case, ...]] = (
    *_VALUES,
    *_LEXER,
    *_SELECT,
    *_FOREACH,
    *_PATHS,
    *_CONDITIONS,
    *_CASE_AND_ARITHMETIC,
    *_FUNCTIONS,
)
