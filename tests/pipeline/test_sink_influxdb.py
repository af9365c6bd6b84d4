"""The sink `influxdb` and a real server: which points there are afterwards."""

from collections.abc import Iterator

import pytest

from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.sinks.probing import target_fault
from support.influxdb import Influxdb, influxdb
from support.sinks import Refused, batch_of, sink_of, write_rows
from support.webhook import webhook

pytestmark = [pytest.mark.service, pytest.mark.slow]

#: As EMQX's documentation has it, over the column of an action.
SYNTAX = (
    "${payload.topic},clientid=${payload.clientid} payload=${payload.payload},"
    "${payload.clientid}_int_value=${payload.int_key}i,bool=${payload.bool}"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Influxdb]:
    with influxdb(tmp_path_factory.mktemp("influxdb")) as running:
        yield running


def test_points_have_values_of_their_types(server: Influxdb) -> None:
    sink = sink_of(server.section(f"write_syntax = {json_of(SYNTAX + ' ${payload.at}')}"))
    rows: list[dict[str, object]] = [
        {"topic": "a b,c", "clientid": "x=1, y", "payload": 'say "hi" \\', "int_key": 5, "bool": True, "at": 1000},
        {"topic": "a b,c", "clientid": "z", "payload": "20.5", "int_key": None, "bool": False, "at": 1001},
    ]
    assert write_rows(sink, batch_of(0), *rows).figures["rows"] == 2
    fields = '"payload", "x=1, y_int_value", "bool", "clientid"'
    assert server.query(f'SELECT {fields} FROM "a b,c"') == [
        [1_000_000_000, 'say "hi" \\', 5, True, "x=1, y"],
        [1_001_000_000, "20.5", None, False, "z"],
    ]
    # Again, as after an answer that was lost: the same points.
    write_rows(sink, batch_of(0), *rows)
    assert server.query('SELECT count("bool") FROM "a b,c"') == [[0, 2]]


def test_constants_texts_and_several_lines(server: Influxdb) -> None:
    syntax = 'c one=1i,half=0.5,is=true,text="<${payload.t}>",mixed=v${payload.n} ${payload.at}\n d n=${payload.n}'
    sink = sink_of(server.section(f"write_syntax = {json_of(syntax)}, precision = s"))
    write_rows(sink, batch_of(0), *({"t": 'q"', "n": n, "at": 7 + n} for n in range(3)))
    assert server.query("SELECT one, half, is, text, mixed FROM c LIMIT 1") == [
        [7_000_000_000, 1, 0.5, True, '<q">', "v0"]
    ]
    # Without a time, rows of a batch are different points all the same.
    assert server.query("SELECT count(n) FROM d") == [[0, 3]]


def test_rows_that_cannot_be_points_are_refused_and_the_others_written(server: Influxdb) -> None:
    sink = sink_of(server.section(f"write_syntax = {json_of('m,tag=${payload.t} v=${payload.v} ${payload.at}')}"))
    refused = Refused()
    rows: list[dict[str, object]] = [{"t": "a", "v": n, "at": n} for n in range(20)]
    rows[3]["v"] = None
    rows[7]["v"] = "text"
    rows[11]["at"] = "noon"
    rows[13]["t"] = "back\\"
    written = write_rows(sink, batch_of(0, refused), *rows)
    assert (written.figures["rows"], written.figures["refused"]) == (16, 4)
    reasons = sorted(reason for _, reason in refused.rows)
    assert "field type conflict" in reasons[0]
    assert reasons[1:] == [
        "no field of the row has a value",
        "the tag tag ends with a backslash, which the line protocol cannot say",
        "the timestamp is 'noon', which is no integer",
    ]
    assert server.query("SELECT count(v) FROM m") == [[0, 16]]


def test_a_server_that_is_away_or_refuses_us_costs_no_row(server: Influxdb) -> None:
    more = 'write_syntax = "p v=${payload.v} 1", retry { first_pause = 1ms, attempts = 2 }'
    with server.server.stopped(), pytest.raises(SinkError, match="tried 2 times"):
        write_rows(sink_of(server.section(more)), batch_of(0), {"v": 1})
    assert target_fault(sink_of(server.section(more)), "") is None
    for change, reason in (
        (("database = weather", "database = nothing"), "database not found"),
        (("p's w", "wrong"), "authorization failed"),
    ):
        sink = sink_of(server.section(more).replace(*change))
        assert reason in (target_fault(sink, "") or "")
        with pytest.raises(SinkError, match=reason):
            write_rows(sink, batch_of(0), {"v": 1})


def test_version_2_has_an_organization_a_bucket_and_a_token() -> None:
    with webhook() as web:
        place = web.url.removeprefix("http://")
        sink = sink_of(
            f'{{ type = influxdb, server = "{place}", org = "my org", bucket = b, token = s3cret, '
            'write_syntax = "p v=${payload.v} 1" }'
        )
        write_rows(sink, batch_of(0), {"v": 1.5})
    (request,) = web.requests
    assert request.path == "/api/v2/write?org=my+org&bucket=b&precision=ns"
    assert (request.headers["Authorization"], request.body) == ("Token s3cret", b"p v=1.5 1000000")
    assert "s3cret" not in repr(sink)


def json_of(text: str) -> str:
    """A text as a pipeline file has it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
