"""`heliograph ctl connectors` and `ctl actions`, as a user types them, against a node."""

import asyncio
import io
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from heliograph.cli.main import main
from support.live_node import BASE, LiveNode

Ctl = Callable[..., Awaitable[str]]


@pytest.fixture
async def ctl(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> AsyncIterator[Ctl]:
    """Runs a command: what it prints; to stderr if it fails."""
    live = await LiveNode(tmp_path, base=BASE + 'connectors.http.fixed { url = "http://127.0.0.1:1" }').start()

    async def run(*words: str, code: int = 0) -> str:
        found = await asyncio.to_thread(main, ["ctl", *words, "--data-dir", str(live.data_dir)])
        out, err = capsys.readouterr()
        assert found == code, out + err
        return out + err

    yield run
    await live.stop()


def cells(printed: str, row: int = 1) -> list[str]:
    """The words of a row of a table."""
    return printed.splitlines()[row].split()


async def test_a_connector_and_its_action_from_their_creation_to_their_end(
    ctl: Ctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    hello = f'url = "{url}", headers {{ authorization = "Bearer hunter2" }}'
    assert "[action_test_failed]" in await ctl("connectors", "test", "http:web", 'url = "http://127.0.0.1:1"', code=1)
    await ctl("connectors", "test", "http:web", hello)
    assert "the connector http:web is made" in await ctl("connectors", "create", "http:web", hello)
    assert "[already_exists]" in await ctl("connectors", "create", "http:web", hello, code=1)
    assert "[not_found]" in await ctl("connectors", "update", "http:other", hello, code=1)
    assert "connected" in await ctl("connectors", "start", "http:web")
    await ctl("connectors", "test", "http:web")

    # What it prints goes back as it is, and stars keep the secret.
    shown = await ctl("connectors", "show", "http:web")
    assert "hunter2" not in shown
    assert "# status      connected" in shown
    monkeypatch.setattr("sys.stdin", io.StringIO(shown.replace('"url"', '"pool_size": 3, "url"')))
    await ctl("connectors", "update", "http:web", "-")
    document = json.loads(await ctl("connectors", "show", "http:web", "--json"))
    assert document["settings"] == {"url": url, "headers": {"authorization": "******"}, "pool_size": 3}

    assert "there is no such connector" in await ctl("actions", "create", "http:tell", "connector = none", code=1)
    await ctl("actions", "create", "http:tell", "connector = web")
    assert cells(await ctl("actions", "list"))[:4] == ["http:tell", "yes", "connected", "web"]
    rows = [json.loads(line) for line in (await ctl("connectors", "list", "--json")).splitlines()]
    assert {row["name"]: row["actions"] for row in rows} == {"fixed": [], "web": ["tell"]}
    assert "queuing" in await ctl("actions", "metrics", "http:tell")
    assert json.loads(await ctl("actions", "metrics", "http:tell", "--json"))["matched"] == 0
    assert "counts from zero" in await ctl("actions", "reset", "http:tell")
    await ctl("actions", "disable", "http:tell")
    assert cells(await ctl("actions", "summary"))[1:3] == ["no", "disconnected"]
    assert "disconnected" in await ctl("actions", "restart", "http:tell", code=1)
    await ctl("actions", "enable", "http:tell")

    await ctl("connectors", "create", "mqtt:far", 'server = "127.0.0.1:1"')
    plant = 'connector = far, enable = false, parameters.topic = "a/#", local.topic = "b/${topic}"'
    await ctl("sources", "create", "mqtt:plant", plant)
    assert cells(await ctl("sources", "list"))[:4] == ["mqtt:plant", "no", "disconnected", "far"]
    assert json.loads(await ctl("sources", "show", "mqtt:plant", "--json"))["settings"]["local"] == {
        "topic": "b/${topic}"
    }
    assert json.loads(await ctl("sources", "metrics", "mqtt:plant", "--json"))["received"] == 0
    assert "counts from zero" in await ctl("sources", "reset", "mqtt:plant")
    assert "mqtt" in (await ctl("sources", "types")).splitlines()
    assert "cannot connect" in await ctl("sources", "test", "mqtt:plant", code=1)
    assert "[in_use]" in await ctl("connectors", "delete", "mqtt:far", code=1)
    await ctl("connectors", "delete", "mqtt:far", "--with-dependents")
    assert len((await ctl("sources", "list")).splitlines()) == 1

    assert "[in_use]" in await ctl("connectors", "delete", "http:web", code=1)
    await ctl("connectors", "delete", "http:web", "--with-dependents")
    assert len((await ctl("actions", "list")).splitlines()) == 1
    server.close()


async def test_what_cannot_be_done_is_refused_with_the_reason(ctl: Ctl) -> None:
    refused = await ctl("connectors", "start", "http:fixed", code=1)
    assert "the connector http:fixed is disconnected: 127.0.0.1:1:" in refused
    for words, code in (
        (("connectors", "show", "http:none"), "[not_found] there is no connector http:none"),
        (("actions", "metrics", "http:none"), "[not_found] there is no action http:none"),
        (("connectors", "create", "nothing:x", "{}"), "[bad_arguments] there is no type 'nothing'; there are http,"),
        (("connectors", "create", "http", "{}"), "TYPE:NAME"),
        (("connectors", "create", "http:x", 'ulr = "http://127.0.0.1:1"'), "ulr"),
        (("connectors", "delete", "http:fixed"), "describes it; remove it there"),
    ):
        assert code in await ctl(*words, code=1)
    assert "kafka_producer" in (await ctl("actions", "types")).splitlines()
