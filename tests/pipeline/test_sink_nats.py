"""The sink `nats` and NATS itself: what streams hold, what subscribers hear, what was refused."""

import asyncio
import json
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from nats.aio.client import Client
from nats.js.api import DiscardPolicy, StreamConfig

from heliograph.actions.loops import marked
from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.runner.connections import KeptConnection
from heliograph.pipeline.runner.local_rows import LocalRows
from heliograph.pipeline.sinks.interface import MicroBatch, RowSink, Written
from heliograph.pipeline.sinks.probing import target_fault
from support.cases import cases
from support.certificates import Authority
from support.nats import Nats, nats_server
from support.sinks import Refused, Retries, batch_of, sink_of

pytestmark = [pytest.mark.service, pytest.mark.slow]

ONCE = "retry { attempts = 1 }, timeout = 10s"
PATIENT = "retry { attempts = 100, first_pause = 20ms, longest_pause = 500ms }"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nats]:
    async def streams(client: Client) -> None:
        stream = client.jetstream()
        await stream.add_stream(StreamConfig("OBS", subjects=["obs.>"]))
        await stream.add_stream(StreamConfig("SMALL", subjects=["small"], max_msg_size=1000))
        await stream.add_stream(StreamConfig("ONE", subjects=["one"], max_msgs=1, discard=DiscardPolicy.NEW))

    with nats_server(tmp_path_factory.mktemp("nats")) as running:
        running.ask(streams)
        yield running


def write(text: str, documents: list[dict[str, Any]], batch: MicroBatch) -> Written:
    sink = cast(RowSink, sink_of(text))
    return sink.write(LocalRows([json.dumps(one).encode() for one in documents], sink), batch)


def held(server: Nats, stream: str) -> int:
    """How many messages a stream holds."""

    async def count(client: Client) -> int:
        return (await client.jetstream().stream_info(stream)).state.messages

    return server.ask(count)


def test_a_stream_has_each_row_once_also_where_a_batch_runs_again(server: Nats) -> None:
    text = server.section('subject = "obs.${payload.kind}", payload = "${payload}", headers { n = "${payload.n}" }')
    documents = [{"n": number, "kind": "warm" if number % 2 else "cold"} for number in range(1200)]
    for _ in range(2):
        written = write(text, documents, batch_of(3))
        assert (written.figures["rows"], written.figures["refused"], written.figures["retries"]) == (1200, 0, 0)
    assert held(server, "OBS") == 1200

    async def first(client: Client) -> Any:
        return await client.jetstream().get_msg("OBS", 2)

    message = server.ask(first)
    assert (message.subject, json.loads(message.data), message.headers["n"]) == ("obs.warm", documents[1], "1")


def test_messages_name_the_nodes_where_a_row_has_been(server: Nats) -> None:
    section = {"type": "nats", "server": f"localhost:{server.port}", "username": "all", "password": "s3cret"}
    made = marked({**section, "subject": "obs.via", "payload": "x"}, "here")
    row = {"pub_props": {"User-Property": {"heliograph-via": "far,far2"}}}
    write(json.dumps(made), [row, {}], batch_of(4))

    async def marks(client: Client) -> list[str]:
        stream = client.jetstream()
        last = await stream.get_last_msg("OBS", "obs.via")
        assert last.seq is not None
        before = await stream.get_msg("OBS", last.seq - 1)
        return [(one.headers or {})["heliograph-via"] for one in (before, last)]

    assert server.ask(marks) == ["here,far,far2", "here"]


def test_a_row_that_leads_nowhere_is_refused_alone(server: Nats) -> None:
    text = server.section('subject = "${payload.to}", payload = "${payload.x}", headers { h = "${payload.h}" }', "some")
    before = held(server, "OBS")
    rows = [
        ("obs.a", "x", "h"),
        ("no.stream", "x", "h"),
        ("obs a", "x", "h"),
        ("obs.>", "x", "h"),
        ("small", "x" * 2000, "h"),
        ("obs.a", "x" * 20_000, "h"),
        ("obs.a", "x", "two\nlines"),
        ("obs.b", "x", "h"),
    ]
    refused = Refused()
    documents = [{"n": n, "to": to, "x": x, "h": h} for n, (to, x, h) in enumerate(rows)]
    write(text, documents, batch_of(0, refused))
    reasons = {json.loads(row["payload"])["n"]: reason for row, reason in refused.rows}
    assert sorted(reasons) == [1, 2, 3, 4, 5, 6]
    assert reasons[1] == "no stream takes this subject"
    assert "is no subject to publish to" in reasons[2]
    assert "message size exceeds maximum allowed" in reasons[4]
    assert "which is 10000 bytes" in reasons[5]
    assert "has a line break" in reasons[6]
    assert held(server, "OBS") == before + 2


def test_without_jetstream_a_subscriber_hears_it_and_what_is_denied_is_noticed(server: Nats) -> None:
    text = server.section(f'jetstream = false, subject = "${{payload.to}}", payload = "${{payload.n}}", {ONCE}', "some")
    refused = Refused()

    async def heard(client: Client) -> list[bytes]:
        subscription = await client.subscribe("heard.*")
        await client.flush()
        documents = [{"n": 1, "to": "heard.a"}, {"n": 2, "to": "denied.a"}, {"n": 3, "to": "heard.b"}]
        await asyncio.to_thread(write, text, documents, batch_of(0, refused))
        return [(await subscription.next_msg(10)).data for _ in range(2)]

    assert server.ask(heard) == [b"1", b"3"]
    ((row, reason),) = refused.rows
    assert json.loads(row["payload"])["n"] == 2
    assert "permissions violation" in reason.lower()


@cases(
    ("more", "user", "reason"),
    [
        ("subject = no.stream", "all", "no stream takes this subject"),
        ("subject = denied.a, jetstream = false", "some", "Permissions Violation"),
        ("subject = obs.a, password = wrong", "all", "Authorization"),
    ],
)
def test_what_a_person_has_to_mend_fails_the_batch_and_costs_no_row(
    server: Nats, more: str, user: str, reason: str
) -> None:
    with pytest.raises(SinkError, match=f"(?i){reason}") as error:
        write(server.section(f"{more}, {ONCE}", user), [{"n": 1}], batch_of(0))
    assert not re.search("wrong|s3cret", str(error.value))


def test_a_full_stream_and_a_server_that_is_away_are_tried_again(server: Nats) -> None:
    retries, kept = Retries(), KeptConnection()
    batch = replace(batch_of(0), tell_retry=retries.tell, connections=kept)
    writing = threading.Thread(
        target=lambda: write(server.section(f"subject = one, {PATIENT}"), [{"n": 1}, {"n": 2}], batch)
    )
    writing.start()
    retries.wait()

    async def purge(client: Client) -> None:
        await client.jetstream().purge_stream("ONE")

    server.ask(purge)
    writing.join(60)
    assert "1 of 2 messages were not taken: maximum messages exceeded" in (retries.reasons[0] or "")
    assert retries.reasons[-1] is None
    assert held(server, "ONE") == 1
    server.server.stop()
    writing = threading.Thread(target=lambda: write(server.section(f"subject = obs.c, {PATIENT}"), [{"n": 3}], batch))
    writing.start()
    retries.wait()
    server.server.start()
    writing.join(60)
    kept.close()
    assert retries.reasons[-1] is None


def test_a_connection_is_tested_and_verified(server: Nats, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate = authority.server()
    files = f'tls {{ cert_file = "{certificate}", key_file = "{certificate}" }}'
    with nats_server(tmp_path, files) as with_tls:
        named = f"subject = t, {ONCE}"
        trusted = with_tls.section(f'{named}, ssl {{ cacertfile = "{authority.cafile}" }}')
        assert [target_fault(sink_of(text), "") for text in (server.section(named), trusted)] == [None, None]
        faults = {
            with_tls.section(f"{named}, ssl {{}}"): "certificate verify failed",
            server.section(f"{named}, password = wrong"): "Authorization",
            f'{{ type = nats, server = "127.0.0.1:9", token = hidden, {named} }}': "connect call failed",
        }
        for text, part in faults.items():
            found = target_fault(sink_of(text), "") or ""
            assert part.lower() in found.lower()
            assert not re.search("wrong|hidden|s3cret", found)
