"""Cases of FOREACH."""

from typing import Final

from rules.cases import Case

_SENSORS: Final = (
    b'{"date": "2024-01-01", "sensors": [{"name": "a", "idx": 0}, {"name": "b", "idx": 1}, {"name": "c"}],'
    b' "limit": 1, "none": [], "text": "[1]"}'
)


def _case(sql: str, rows: list[dict[str, object]]) -> Case:
    return Case(sql, rows, payload=_SENSORS)  # type: ignore[arg-type]  # values of cases are values of the language


FOREACH_CASES: Final[tuple[Case, ...]] = (
    _case(
        'FOREACH payload.sensors AS s DO s.name AS name, payload.date AS date FROM "t/#"',
        [{"name": name, "date": "2024-01-01"} for name in "abc"],
    ),
    _case('FOREACH payload.sensors AS s DO s.name AS n INCASE s.idx >= 1 FROM "t/#"', [{"n": "b"}]),
    _case('FOREACH payload.sensors DO item.name AS n INCASE is_null(item.idx) FROM "t/#"', [{"n": "c"}]),
    _case('foreach payload.sensors do item.name as n from "t/#" where payload.limit = 2', []),
    _case(
        'FOREACH payload.sensors AS s DO s.name AS n FROM "t/#" WHERE length(s) = 3 AND qos = 1',
        [{"n": n} for n in "abc"],
    ),
    # earlier items are visible to later ones, and to DO and INCASE
    _case(
        "FOREACH payload.limit AS limit, sublist(limit, payload.sensors) AS s DO limit, s.name AS n INCASE limit = 1 "
        'FROM "t/#"',
        [{"limit": 1, "n": "a"}],
    ),
    # later fields of DO see earlier ones
    _case('FOREACH [1, 2] AS x DO x + 1 AS y, y * 10 AS z FROM t, "t/1"', [{"y": 2, "z": 20}, {"y": 3, "z": 30}]),
    _case('FOREACH [1..3] AS x DO x FROM "t/#"', [{"x": 1}, {"x": 2}, {"x": 3}]),
    _case('FOREACH [1] AS a.b DO a.b AS x FROM "t/#"', [{"x": 1}]),
    # what is no array has no elements
    _case('FOREACH payload.none AS s DO s FROM "t/#"', []),
    _case('FOREACH payload.date AS s DO s FROM "t/#"', []),
    _case('FOREACH payload.text AS s DO s FROM "t/#"', []),
    _case('FOREACH payload.missing AS s DO s FROM "t/#"', []),
    _case('FOREACH json_decode(payload.text) AS s DO s FROM "t/#"', [{"s": 1}]),
    # the rest of the payload stays visible, with AS and without
    _case('FOREACH payload.sensors DO payload.date AS d FROM "t/#" WHERE payload.limit = 1', [{"d": "2024-01-01"}] * 3),
    Case(
        'FOREACH payload.l AS x DO *, x AS y INCASE x > 20 FROM "t/#"',
        None,
        "not valid JSON",
        payload=b"no json",
    ),
    Case('FOREACH payload.l AS x DO 1 / (x - 1) AS y FROM "t/#"', None, "division by zero", payload=b'{"l": [3, 1]}'),
    Case('FOREACH nosuch(1) AS x FROM "t/#"', None, "there is no function nosuch"),
)
