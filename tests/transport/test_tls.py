"""What clients of a TLS listener see: certificates of both sides, versions, names, renewal, and broken handshakes."""

import asyncio
import logging
import os
import re
import shutil
import ssl
from dataclasses import replace
from pathlib import Path

import pytest

from heliograph.broker.client import ClientInfo
from heliograph.config.listeners import ServerName, SslListener, SslOptions
from heliograph.settings.secrets import Secret
from heliograph.transport.errors import CertificateError
from heliograph.transport.peer_certificate import PeerIdentity
from support.cases import cases
from support.certificates import Authority
from support.listening import ANY_PORT, CONNACK, CONNECT, DISCONNECT, PINGREQ, PINGRESP, Rig, Socket, listening
from support.options import CHANNEL


def ssl_listener(authority: Authority, **options: object) -> SslListener:
    settings = replace(SslOptions(certfile=str(authority.server())), **options)  # type: ignore[arg-type]  # they are options by name
    return SslListener(bind=ANY_PORT, ssl_options=settings)


def strict(authority: Authority, **options: object) -> SslListener:
    return ssl_listener(authority, cacertfile=str(authority.cafile), verify=True, fail_if_no_peer_cert=True, **options)


async def is_refused(rig: Rig, context: ssl.SSLContext) -> bool:
    """Whether a client is turned away; with TLS 1.3 it finds out when it reads."""
    try:
        client = await rig.socket(tls=context)
        await client.say(CONNECT)
        return await client.hear(len(CONNACK)) != CONNACK
    except (ssl.SSLError, ConnectionError, asyncio.IncompleteReadError):
        return True


def serial_of(client: Socket) -> str:
    found = client.writer.get_extra_info("ssl_object").getpeercert()
    return str(found["serialNumber"])


async def test_a_client_is_served(authority: Authority) -> None:
    async with listening("ssl", ssl_listener(authority)) as rig:
        client = await rig.client(tls=authority.context())
        assert client.writer.get_extra_info("ssl_object").version() == "TLSv1.3"
        await client.ask(PINGREQ, PINGRESP)
        await client.say(DISCONNECT)
        assert await client.hear_the_end() == b""
        await rig.until("current_connections", 0)


@cases(
    ("versions", "highest", "spoken"),
    [
        (("tlsv1.3", "tlsv1.2"), ssl.TLSVersion.TLSv1_2, "TLSv1.2"),
        (("tlsv1.2",), ssl.TLSVersion.TLSv1_3, "TLSv1.2"),
        (("tlsv1.3",), ssl.TLSVersion.TLSv1_2, None),
    ],
)
async def test_versions(
    authority: Authority,
    versions: tuple[str, ...],
    highest: ssl.TLSVersion,
    spoken: str | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    async with listening("ssl", ssl_listener(authority, versions=versions)) as rig:
        context = authority.context(highest=highest)
        if spoken is None:
            with pytest.raises((ssl.SSLError, ConnectionResetError)):
                await rig.socket(tls=context)
            await rig.until("handshake_failures", 1)
            (line,) = (record.getMessage() for record in caplog.records)
            assert re.match(r"listener ssl:test: connection of 127\.0\.0\.1:\d+ failed: TLS: ", line)
        else:
            client = await rig.client(tls=context)
            assert client.writer.get_extra_info("ssl_object").version() == spoken


async def test_our_order_of_ciphers_is_preferred(authority: Authority) -> None:
    ours = "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-ECDSA-AES128-GCM-SHA256"
    async with listening("ssl", ssl_listener(authority, versions=("tlsv1.2",), ciphers=ours)) as rig:
        context = authority.context()
        context.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384")
        client = await rig.client(tls=context)
        assert client.writer.get_extra_info("cipher")[0] == "ECDHE-ECDSA-AES256-GCM-SHA384"


async def test_a_certificate_by_server_name(authority: Authority) -> None:
    names = (
        ServerName("broker.example", str(authority.server("broker.example", file="broker.pem"))),
        ServerName("*.tenants.example", str(authority.server("*.tenants.example", file="tenants.pem"))),
    )
    async with listening("ssl", ssl_listener(authority, sni=names)) as rig:
        for name in ("broker.example", "BROKER.example", "acme.tenants.example", "localhost"):
            client = await rig.socket(tls=authority.context(), server_name=name)
            await client.ask(CONNECT, CONNACK)
        with pytest.raises(ssl.SSLCertVerificationError):
            await rig.socket(tls=authority.context(), server_name="other.example")


@cases("required", [True, False])
async def test_client_certificates(authority: Authority, tmp_path: Path, required: bool) -> None:
    stranger = Authority(tmp_path).client("stranger")
    settings = ssl_listener(authority, cacertfile=str(authority.cafile), verify=True, fail_if_no_peer_cert=required)
    async with listening("ssl", settings) as rig:
        await rig.client(tls=authority.context(authority.client("meter-1")))
        assert await is_refused(rig, authority.context(stranger))
        assert await is_refused(rig, authority.context()) == required
        await rig.until("handshake_failures", 2 if required else 1)


async def test_a_revoked_certificate_is_refused(authority: Authority) -> None:
    good, bad = authority.client("good"), authority.client("bad")
    settings = strict(authority, enable_crl_check=True, crlfile=str(authority.revoke(bad)))
    async with listening("ssl", settings) as rig:
        await rig.client(tls=authority.context(good))
        assert await is_refused(rig, authority.context(bad))


@cases(
    ("field", "expected"),
    [("disabled", None), ("cn", "meter-7"), ("dn", r"CN=meter-7,OU=Testing cert\, trustme,O=ACME\, Inc.")],
)
async def test_what_a_certificate_says_is_who_the_client_is(
    authority: Authority, field: str, expected: str | None
) -> None:
    clients: list[ClientInfo] = []
    certificate = authority.client("meter-7", "ACME, Inc.")
    async with listening("ssl", strict(authority), identity=PeerIdentity(field, "cn")) as rig:
        rig.broker.hooks.client_connected.add(lambda client, *_told: clients.append(client))
        await rig.client(tls=authority.context(certificate))
    (client,) = clients
    found = client.username
    assert client.clientid == "meter-7"
    if field == "dn":
        assert found is not None
        assert found.startswith("CN=meter-7,")
        assert r"O=ACME\, Inc." in found
    else:
        assert found == expected


async def test_renewed_certificates_are_for_new_handshakes(authority: Authority, tmp_path: Path) -> None:
    file = tmp_path / "server.pem"
    shutil.copy(authority.server(file="first.pem"), file)
    async with listening("ssl", ssl_listener(authority, certfile=str(file))) as rig:
        before = await rig.client(tls=authority.context())
        shutil.copy(authority.server(file="second.pem"), file)
        os.utime(file, (1, 1))  # a change also where the clock of the file system is coarse
        await rig.advance(6.0)
        after = await rig.socket(tls=authority.context())
        assert serial_of(after) != serial_of(before)
        await before.ask(PINGREQ, PINGRESP)


async def test_certificates_that_cannot_be_used_leave_the_old_ones(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "server.pem"
    shutil.copy(authority.server(file="first.pem"), file)
    async with listening("ssl", ssl_listener(authority, certfile=str(file))) as rig:
        serial = serial_of(await rig.socket(tls=authority.context()))
        file.write_text("not a certificate")
        await rig.advance(6.0)
        await rig.advance(6.0)
        assert serial_of(await rig.socket(tls=authority.context())) == serial
        file.unlink()
        await rig.advance(6.0)
        assert serial_of(await rig.socket(tls=authority.context())) == serial
        shutil.copy(authority.server(file="third.pem"), file)
        await rig.advance(6.0)
        assert serial_of(await rig.socket(tls=authority.context())) != serial
    told = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert len(told) == 2, "once for each change"
    assert "listeners.ssl.test" in told[0]


async def test_certificates_are_read_again_on_request(authority: Authority, tmp_path: Path) -> None:
    file = tmp_path / "server.pem"
    shutil.copy(authority.server(file="first.pem"), file)
    async with listening("ssl", ssl_listener(authority, certfile=str(file))) as rig:
        serial = serial_of(await rig.socket(tls=authority.context()))
        shutil.copy(authority.server(file="second.pem"), file)
        listener = rig.listener
        listener.prepare(ssl_listener(authority, certfile=str(file)), listener.options, PeerIdentity())()
        assert serial_of(await rig.socket(tls=authority.context())) != serial


@cases("first", [b"", b"\x16", b"\x16\x03\x01\x02\x00\x01"], ids=["silent", "byte", "beginning"])
async def test_a_client_that_does_not_say_hello_is_cut(authority: Authority, first: bytes) -> None:
    async with listening("ssl", ssl_listener(authority, handshake_timeout=5.0)) as rig:
        client = await rig.socket(first=first)
        await rig.until("current_connections", 1)
        await rig.advance(4.0)
        assert rig.count("handshake_timeouts") == 0
        await rig.advance(2.0)
        assert await client.hear_the_end() == b""
        assert rig.count("handshake_timeouts") == 1
        assert rig.count("current_connections") == 0


async def test_a_hello_in_single_bytes(authority: Authority) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    talk = authority.context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        talk.do_handshake()
    async with listening("ssl", ssl_listener(authority)) as rig:
        client = await rig.socket()
        for byte in outgoing.read():
            await client.say(bytes((byte,)))
            await rig.advance(0)
        assert (await client.hear(2)) == b"\x16\x03", "a ServerHello"


async def test_a_handshake_that_does_not_go_on_is_cut(authority: Authority) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    talk = authority.context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        talk.do_handshake()
    options = replace(CHANNEL, idle_timeout_us=100_000)  # real time: the event loop's
    async with listening("ssl", ssl_listener(authority), options) as rig:
        client = await rig.socket(first=outgoing.read())
        assert (await client.hear_the_end())[:1] == b"\x16"
        await rig.until("handshake_timeouts", 1)
        await rig.until("current_connections", 0)


@cases(
    "first",
    [
        CONNECT,
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x02\x00\x00\x05",
        b"\x16\x03\x01\x40\x01",
        b"\x16\x03\x01\x00\x05hello",
    ],
    ids=["MQTT", "HTTP", "SSL 2", "long record", "no hello"],
)
async def test_what_is_not_tls_is_closed_and_counted(authority: Authority, first: bytes) -> None:
    async with listening("ssl", ssl_listener(authority)) as rig:
        client = await rig.socket(first=first)
        await client.hear_the_end()
        await rig.until("handshake_failures", 1)
        await rig.until("current_connections", 0)
        await rig.client(tls=authority.context())


async def test_a_client_that_hangs_up_in_the_handshake_is_forgotten(authority: Authority) -> None:
    async with listening("ssl", ssl_listener(authority)) as rig:
        for first in (b"", b"\x16\x03\x01\x02\x00\x01"):
            client = await rig.socket(first=first)
            await rig.until("current_connections", 1)
            await client.close()
            await rig.until("current_connections", 0)


async def test_half_open_handshakes_count_as_connections(authority: Authority) -> None:
    settings = replace(ssl_listener(authority), max_connections=2)
    async with listening("ssl", settings) as rig:
        for _ in range(2):
            await rig.socket()
        await rig.until("current_connections", 2)
        assert await (await rig.socket()).hear_the_end() == b""
        assert rig.count("refused_connections") == 1


async def test_half_open_handshakes_do_not_hold_up_the_end(authority: Authority) -> None:
    rig = Rig("ssl", ssl_listener(authority))
    await rig.listener.start()
    half_open = await rig.socket()
    await rig.until("current_connections", 1)
    rig.listener.stop_accepting()
    await rig.listener.close(0.1)
    await half_open.hear_the_end()
    await half_open.close()
    assert rig.count("current_connections") == 0


@cases(
    ("options", "expected"),
    [
        ({"certfile": ""}, 'certfile = "": a TLS listener needs a certificate'),
        ({"certfile": "/no/such/file.pem"}, 'certfile = "/no/such/file.pem": No such file or directory'),
        ({"keyfile": "{other}"}, 'keyfile = "{other}": the key does not belong to the certificate'),
        ({"certfile": "{text}"}, 'keyfile = "{text}": certificate or key is not PEM'),
        ({"certfile": "{locked}", "keyfile": "{key}"}, 'keyfile = "{key}": the key has a password and none is given'),
        (
            {"certfile": "{locked}", "keyfile": "{key}", "password": Secret("wrong")},
            'keyfile = "{key}": the password is wrong',
        ),
        ({"ciphers": "NONSENSE"}, 'ciphers = "NONSENSE": OpenSSL knows none of them'),
        (
            {"verify": True, "cacertfile": "{text}"},
            'cacertfile = "{text}": it holds nothing that OpenSSL can read',
        ),
        (
            {"verify": True, "cacertfile": "{ca}", "enable_crl_check": True, "crlfile": "{ca}"},
            'crlfile = "{ca}": it holds no revocation list',
        ),
        (
            {"sni": (ServerName("a.example", "/no/such/file.pem"),)},
            'sni.1.certfile = "/no/such/file.pem": No such file',
        ),
    ],
)
async def test_certificates_that_cannot_be_used_are_told(
    authority: Authority, tmp_path: Path, options: dict[str, object], expected: str
) -> None:
    certfile, keyfile = authority.locked_server("secret")
    text = tmp_path / "text"
    text.write_text("no PEM")
    files = {
        "other": str(authority.server(file="other.pem")),
        "text": str(text),
        "locked": str(certfile),
        "key": str(keyfile),
        "ca": str(authority.cafile),
    }
    given = {name: value.format(**files) if isinstance(value, str) else value for name, value in options.items()}
    with pytest.raises(CertificateError) as caught:
        Rig("ssl", ssl_listener(authority, **given))
    assert f"listeners.ssl.test.ssl_options.{expected.format(**files)}" in str(caught.value)


async def test_a_key_behind_a_password(authority: Authority) -> None:
    certfile, keyfile = authority.locked_server("secret")
    settings = ssl_listener(authority, certfile=str(certfile), keyfile=str(keyfile), password=Secret("secret"))
    async with listening("ssl", settings) as rig:
        await rig.client(tls=authority.context())


async def test_large_messages_go_both_ways(authority: Authority) -> None:
    async with listening("ssl", ssl_listener(authority)) as rig:
        client = await rig.client(tls=authority.context())
        body = b"\x00\x01t" + os.urandom(500_000)
        packet = b"\x30" + bytes((0x80 | len(body) & 0x7F, 0x80 | len(body) >> 7 & 0x7F, len(body) >> 14)) + body
        await client.ask(bytes.fromhex("82 06 0001 0001 74 00"), bytes.fromhex("90 03 0001 00"))
        async with asyncio.timeout(10):
            await client.say(packet)
        assert await client.hear(len(packet)) == packet
