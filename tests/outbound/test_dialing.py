"""Connections on real sockets: the address that was checked is the one that is connected to."""

import asyncio
import socket
import ssl
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import pytest

from heliograph.outbound import Dialer, Outbound, OutboundDeniedError
from heliograph.outbound.dialing import denial_in
from heliograph.outbound.http import AsyncDialedTransport, DialedTransport
from heliograph.settings.outbound import OutboundConfig
from support.certificates import Authority
from support.names import Names
from support.webhook import Answer, webhook

NO_LOOPBACK = OutboundConfig(allow_loopback=False)


@contextmanager
def listening() -> Iterator[int]:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield server.getsockname()[1]


def test_a_name_with_a_denied_address_leads_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    outbound = Outbound(resolver=Names(db=["169.254.169.254"]))
    with pytest.raises(OutboundDeniedError) as raised:
        outbound.dialer("connectors.http.db").connect("db", 80, 1.0)
    text = "connectors.http.db: 'db' (169.254.169.254) is denied by outbound.allow_link_local = false (169.254.0.0/16)"
    assert str(raised.value) == text
    assert outbound.denied_count == 1
    assert f"no connection: {text}" in caplog.text


def test_the_answer_that_was_checked_is_the_one_that_is_used() -> None:
    """A second look at the name would go where the policy denies."""
    names = Names(db=["127.0.0.1", "169.254.169.254"])
    with listening() as port:
        connected = Outbound(resolver=names).dialer("test").connect("db", port, 1.0)
        with connected:
            assert connected.getpeername() == ("127.0.0.1", port)
    assert names.asked == ["db"]


def test_of_several_addresses_the_allowed_ones_are_tried() -> None:
    with listening() as port:
        outbound = Outbound(resolver=Names(db=["169.254.1.1 127.0.0.99 127.0.0.1"]))
        with outbound.dialer("test").connect("db", port, 1.0) as connected:
            assert connected.getpeername() == ("127.0.0.1", port)
    assert outbound.denied_count == 0


async def test_streams_are_checked_the_same_way() -> None:
    with listening() as port:
        outbound = Outbound(resolver=Names(db=["127.0.0.1"]))
        _, writer = await outbound.dialer("test").open_connection("db", port)
        assert writer.get_extra_info("peername") == ("127.0.0.1", port)
        writer.close()
        await writer.wait_closed()
        outbound.use(NO_LOOPBACK)
        for host in ("db", "127.0.0.1"):
            with pytest.raises(OutboundDeniedError, match="allow_loopback = false"):
                await outbound.dialer("test").open_connection(host, port)


@pytest.mark.parametrize("host", ["unknown", "a..b", "x" * 70 + ".example"])
async def test_what_cannot_be_resolved_is_no_denial(host: str) -> None:
    outbound = Outbound()
    if host == "unknown":
        outbound = Outbound(resolver=Names())
    with pytest.raises(OSError, match=r"no name|is not a name") as raised:
        await outbound.dialer("test").resolve(host, 80)
    assert not isinstance(raised.value, OutboundDeniedError)


def client(dialer: Dialer, verify: ssl.SSLContext | bool = False) -> httpx.Client:
    return httpx.Client(transport=DialedTransport(dialer, verify), follow_redirects=True, trust_env=False)


def async_client(dialer: Dialer, verify: ssl.SSLContext | bool = False) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=AsyncDialedTransport(dialer, verify), follow_redirects=True, trust_env=False)


NAMES = {"web": ["127.0.0.1"], "inside": ["127.0.0.2"]}
INSIDE_DENIED = r"test: 'inside' \(127.0.0.2\) is denied by outbound.denied_networks \(127.0.0.2/32\)"
NO_INSIDE = OutboundConfig(denied_networks=("127.0.0.2/32",))


def test_a_redirect_to_a_denied_server_is_not_followed() -> None:
    with webhook() as allowed:
        allowed.answer = lambda request: Answer(302, {"Location": f"http://inside:{allowed.port}/"})
        dialer = Outbound(NO_INSIDE, Names(**NAMES)).dialer("test")
        with (
            client(dialer) as http,
            pytest.raises(httpx.ConnectError, match=r"test: 'inside' \(127.0.0.2\) is denied by"),
        ):
            http.get(f"http://web:{allowed.port}/")
        assert len(allowed.requests) == 1


async def test_nor_is_it_in_an_event_loop() -> None:
    with webhook() as allowed:
        allowed.answer = lambda request: Answer(302, {"Location": f"http://inside:{allowed.port}/"})
        dialer = Outbound(NO_INSIDE, Names(**NAMES)).dialer("test")
        async with async_client(dialer) as http:
            with pytest.raises(httpx.ConnectError, match=INSIDE_DENIED) as raised:
                await http.get(f"http://web:{allowed.port}/")
        assert isinstance(denial_in(raised.value), OutboundDeniedError)
        assert len(allowed.requests) == 1


def test_a_change_holds_from_the_next_connection_on() -> None:
    outbound = Outbound(resolver=Names(**NAMES))
    with webhook() as service, client(outbound.dialer("test")) as http:
        url = f"http://web:{service.port}/"
        assert http.get(url).status_code == 204
        outbound.use(NO_LOOPBACK)
        assert http.get(url).status_code == 204  # the connection that stands
        assert http.get(url, headers={"connection": "close"}).status_code == 204
        with pytest.raises(httpx.ConnectError, match="allow_loopback = false"):
            http.get(url)
        outbound.use(OutboundConfig())
        assert http.get(url).status_code == 204


@pytest.mark.parametrize("name", ["web.example", "other.example"])
async def test_tls_verifies_the_name_and_not_the_address(tmp_path: Path, name: str) -> None:
    authority = Authority(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.server("web.example"))
    seen: list[str | None] = []
    context.sni_callback = lambda connection, server_name, used: seen.append(server_name)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    dialer = Outbound(resolver=Names(**{name: ["127.0.0.1"]})).dialer("test")
    async with server:
        async with async_client(dialer, authority.context()) as http:
            asking = [
                http.get(f"https://{name}:{port}/"),
                asyncio.to_thread(_get, dialer, authority.context(), name, port),
            ]
            asked = await asyncio.gather(*asking, return_exceptions=True)
        streams = await asyncio.gather(dialer.open_connection(name, port, authority.context()), return_exceptions=True)
    if name == "web.example":
        assert [one.status_code for one in asked if isinstance(one, httpx.Response)] == [204, 204]
        assert isinstance(streams[0], tuple)
        streams[0][1].close()
    else:
        assert all(isinstance(one, httpx.ConnectError) and "not valid for" in str(one) for one in asked)
        assert isinstance(streams[0], ssl.SSLCertVerificationError)
    assert seen == [name] * 3


def _get(dialer: Dialer, context: ssl.SSLContext, name: str, port: int) -> httpx.Response:
    with client(dialer, context) as http:
        return http.get(f"https://{name}:{port}/")


def test_errors_are_those_of_httpx() -> None:
    with listening() as port:
        pass  # nothing listens there
    with client(Outbound(resolver=Names(**NAMES)).dialer("test")) as http:
        with pytest.raises(httpx.ConnectError):
            http.get(f"http://web:{port}/")
        with pytest.raises(httpx.ConnectError, match="there is no name"):
            http.get(f"http://unknown:{port}/")
        with listening() as silent, pytest.raises(httpx.ReadTimeout):
            http.get(f"http://web:{silent}/", timeout=0.05)
