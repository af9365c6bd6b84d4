"""What callers of the reader process may see: tokens, TLS, and what is refused at the start."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from heliograph.config.loading import load_config
from heliograph.config.storage import FlightConfig, FlightTlsConfig, FlightTokenConfig
from heliograph.processes.programs import Programs
from heliograph.settings.errors import ConfigError
from heliograph.settings.secrets import Secret
from heliograph.storage.columnar.database import LocalDatabase
from heliograph.storage.reader.configured import reader_security
from heliograph.storage.reader.process import ReaderProcess, ReaderStartError
from heliograph.storage.reader.security import ReaderSecurity, ReaderSettingsError, ReaderToken, digest_of
from storage.messages import MakeMessage
from support.cases import cases
from support.certificates import Authority
from support.databases import store_batch

SECRET = "correct horse battery staple"
WEATHER = FlightTokenConfig(name="weather", token=Secret(SECRET), topics=("weather/#", "$SYS/brokers"))

Start = Callable[[FlightConfig], Any]


class Caller:
    """A Flight client with a token of its own."""

    def __init__(self, bind: str, token: str | None = None, **tls: bytes) -> None:
        self._client = flight.FlightClient(f"grpc{'+tls' if tls else ''}://{bind}", **tls)
        headers = [(b"authorization", f"Bearer {token}".encode())] if token is not None else []
        self._options = flight.FlightCallOptions(headers=headers, timeout=20)

    def act(self, action: str, **fields: object) -> dict[str, Any]:
        (result,) = self._client.do_action(flight.Action(action, json.dumps(fields).encode()), self._options)
        answer: dict[str, Any] = json.loads(result.body.to_pybytes())
        return answer

    def topics(self, stream: str, *filters: str, database: str = "messages") -> list[str]:
        ticket = {"database": database, "topics": filters, "stream": stream}
        table = self._client.do_get(flight.Ticket(json.dumps(ticket).encode()), self._options).read_all()
        found: list[str] = table.column("topic").to_pylist()
        return found


@pytest.fixture
async def start(data_dir: Path, copies: Programs) -> AsyncIterator[Start]:
    """Starts a reader process with settings and gives its address."""
    readers: list[ReaderProcess] = []

    async def begin(config: FlightConfig) -> str:
        security = partial(reader_security, config)
        readers.append(ReaderProcess(data_dir, "127.0.0.1:0", security=security, programs=copies))
        await readers[-1].start()
        return readers[-1].bind

    yield begin
    for reader in readers:
        await reader.stop()


@pytest.mark.service
async def test_a_token_sees_its_topics_and_nothing_else(
    start: Start, database: LocalDatabase, make_message: MakeMessage
) -> None:
    store_batch(database, [make_message("weather/EWR/obs"), make_message("secret/1"), make_message("weather")])
    bind = await start(FlightConfig(tokens=(WEATHER,)))
    caller = Caller(bind, SECRET)
    for allowed in ("weather/#", "weather/+/obs", "weather", "weather/EWR/obs"):
        streams = caller.act("get_streams", database="messages", topics=[allowed])["streams"]
        seen = [topic for stream in streams for topic in caller.topics(stream["stream"], allowed)]
        assert seen, allowed
        assert all(topic.startswith("weather") for topic in seen)
    secret = "messages/0/1/2"
    assert caller.topics(secret, "weather/#") == []
    ends = ["", "9223372036854775807-0"]
    with pytest.raises(flight.FlightServerError, match="is not one of the topics asked for"):
        caller.act("split", database="messages", topics=["weather/#"], ranges={secret: ends})
    for refused in ("#", "+/#", "+", "+/1", "secret/1", "weather2/#", "$SYS/#"):
        for ask in ("get_streams", "plan"):
            with pytest.raises(flight.FlightServerError, match="it allows weather/#, ") as caught:
                caller.act(ask, database="messages", topics=["weather/#", refused])
            assert caught.value.extra_info == b"storage_forbidden"
        with pytest.raises(flight.FlightServerError, match="does not allow the topic filter"):
            caller.topics(secret, refused)


@pytest.mark.service
async def test_a_token_knows_of_its_databases_only(
    start: Start, database: LocalDatabase, make_message: MakeMessage
) -> None:
    store_batch(database, [make_message("weather/EWR/obs"), make_message("secret/1")])
    everything = FlightTokenConfig(name="all", sha256=digest_of("e" * 20), topics=("#",))
    elsewhere = FlightTokenConfig(name="elsewhere", token=Secret("f" * 20), topics=("#",), databases=("retained",))
    bind = await start(FlightConfig(tokens=(WEATHER, everything, elsewhere)))
    assert Caller(bind, SECRET).act("info") == {"databases": ["messages"]}
    assert Caller(bind, "f" * 20).act("info") == {"databases": []}
    with pytest.raises(flight.FlightServerError, match="does not allow the database 'messages'; it allows retained"):
        Caller(bind, "f" * 20).act("info", database="messages")
    with pytest.raises(flight.FlightServerError, match="there is no such database; there are: none"):
        Caller(bind, "f" * 20).act("info", database="retained")
    assert Caller(bind, "e" * 20).act("info", database="messages")["messages"] == 2
    partly = Caller(bind, SECRET).act("info", database="messages")
    assert (partly["messages"], partly["streams"]) == (None, None), "sums over topics that it may not see"
    assert partly["stored_at"] > 0


@pytest.mark.service
async def test_without_its_token_nothing_is_answered(start: Start) -> None:
    bind = await start(FlightConfig(tokens=(WEATHER,)))
    for token in (None, "", "wrong", "correct horse battery stapl", SECRET + "x", "\x7fé"):
        caller = Caller(bind, token)
        for ask in (partial(caller.act, "info"), partial(caller.topics, "messages/0/1/1", "#")):
            with pytest.raises((flight.FlightUnauthenticatedError, pa.ArrowException)) as caught:
                ask()
            assert "token" in str(caught.value) or token == "\x7fé", token
            assert SECRET not in str(caught.value), token
    assert Caller(bind, SECRET).act("info")["databases"] == []  # a wrong token of others stands in nobody's way


@pytest.mark.service
async def test_a_reader_may_be_open_beside_its_tokens(start: Start) -> None:
    bind = await start(FlightConfig(tokens=(WEATHER,), require_token="false"))
    assert Caller(bind).act("info")["databases"] == []
    assert Caller(bind, "who knows").act("info")["databases"] == []


@pytest.mark.service
async def test_certificates_are_shown_and_asked_for(start: Start, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server, client = str(authority.server()), authority.client("spark").read_bytes()
    bind = await start(
        FlightConfig(tls=FlightTlsConfig(enable=True, certfile=server, cacertfile=str(authority.cafile), verify=True))
    )
    ca = authority.cafile.read_bytes()
    with_certificate = Caller(bind, tls_root_certs=ca, cert_chain=client, private_key=client)
    assert (await asyncio.to_thread(with_certificate.act, "info"))["databases"] == []
    for refused in (Caller(bind, tls_root_certs=ca), Caller(bind)):
        with pytest.raises(flight.FlightUnavailableError):
            await asyncio.to_thread(refused.act, "info")


@pytest.mark.service
async def test_a_certificate_that_cannot_be_used_is_named(start: Start, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    locked, key = authority.locked_server("p")
    own, other = authority.server(), authority.server(file="other.pem")
    for certfile, keyfile, said in (
        (tmp_path / "none.pem", "", f'tls.certfile = "{tmp_path / "none.pem"}": No such file'),
        (locked, key, f'tls.keyfile = "{key}": a key with a password cannot be used here'),
        (own, other, "the key does not belong to the certificate"),
        (authority.cafile, "", "it is not a certificate and its key in PEM"),
    ):
        tls = FlightTlsConfig(enable=True, certfile=str(certfile), keyfile=str(keyfile))
        with pytest.raises(ReaderStartError) as caught:
            await start(FlightConfig(tls=tls))
        assert said in str(caught.value)


def test_a_token_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{SECRET}\n")
    config = FlightConfig(tokens=(FlightTokenConfig(name="spark", token=Secret(file=file)),))
    security = reader_security(config)
    assert security.authenticate(f"Bearer {SECRET}") == ReaderToken("spark", digest_of(SECRET), ("#",), ("messages",))
    assert ReaderSecurity.from_json(security.to_json()) == security
    assert SECRET not in security.to_json() + repr(config) + repr(security)
    for content, said in (("short", "it holds 5 characters"), ("ü" * 20, "ASCII")):
        file.write_text(content, encoding="utf-8")
        with pytest.raises(ReaderSettingsError, match=said):
            reader_security(config)
    file.unlink()
    with pytest.raises(ReaderSettingsError, match=r"tokens.1.token = .*No such file"):
        reader_security(config)


def test_only_this_machine_is_served_without_tokens() -> None:
    for host in ("127.0.0.1", "127.1.2.3", "::1", "localhost"):
        ReaderSecurity().check_address(host)
    for host in ("0.0.0.0", "::", "10.0.0.1", "db.example.org"):
        with pytest.raises(ReaderSettingsError, match="could read all messages"):
            ReaderSecurity().check_address(host)
        ReaderSecurity(open_to_all=True).check_address(host)
        ReaderSecurity((ReaderToken("t", digest_of(SECRET), ("#",), ("messages",)),)).check_address(host)


@cases(
    ("settings", "said"),
    [
        ("bind = 8815", 'node.conf:1: durable_storage.flight.bind: found "0.0.0.0:8815", where every client'),
        ("require_token = true", "require_token: found true without any token"),
        ("tokens = [{}]", "tokens.1: expected one of token and sha256, found none of them"),
        (f'tokens = [{{ token = "{SECRET}", sha256 = {64 * "a"} }}]', "found token and sha256"),
        ("tokens = [{ token = hunter2 }]", "expected a token of 16 ASCII characters at least, found 7 characters"),
        ("tokens = [{ sha256 = abc }]", "expected 64 hexadecimal digits"),
        (f'tokens = [{{ token = "{SECRET}", topics = ["a/#/b"] }}]', "expected a topic filter"),
        (
            f'tokens = [{{ token = "{SECRET}" }}, {{ token = "{SECRET}2" }}]',
            'tokens.2.name: found "token" a second time',
        ),
        ("tls.enable = true", "enable = true needs certfile"),
        ("tls { verify = verify_peer }", "verify = verify_peer needs cacertfile"),
    ],
)
def test_settings_that_contradict_each_other_are_named(tmp_path: Path, settings: str, said: str) -> None:
    file = tmp_path / "node.conf"
    file.write_text(f"durable_storage.flight {{ {settings} }}")
    with pytest.raises(ConfigError) as caught:
        load_config(file)
    assert said in str(caught.value)
    assert SECRET not in str(caught.value)
    assert "hunter2" not in str(caught.value)


@cases(
    "settings",
    [
        "bind = 8815, require_token = false",
        "bind = 8815, enable = false",
        f'bind = 8815, tokens = [{{ token = "{SECRET}" }}]',
        'bind = "[::1]:8815"',
    ],
)
def test_settings_that_go_together(tmp_path: Path, settings: str) -> None:
    file = tmp_path / "node.conf"
    file.write_text(f"durable_storage.flight {{ {settings} }}")
    assert load_config(file).durable_storage.flight.bind.port == 8815
