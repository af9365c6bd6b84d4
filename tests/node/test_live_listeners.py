"""Listeners that come, change and go while a node runs, and what becomes of the clients that are connected."""

import asyncio
import logging
import socket
import ssl
from pathlib import Path

import pytest

from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.transport.errors import ListenerBusyError, ListenerError, UnknownListenerError
from support.certificates import Authority
from support.mosquitto import free_port
from support.running import RunningNode

ALWAYS = """
durable_storage { messages.topics = [], flight.enable = false }
listeners.tcp.steady.bind = "127.0.0.1:0"
"""

pytestmark = pytest.mark.service


def bind(port: int, host: str = "127.0.0.1", kind: str = "tcp") -> str:
    return f'listeners.{kind}.default.bind = "{host}:{port}"\n'


async def test_another_address_replaces_a_listener_and_nothing_else(tmp_path: Path) -> None:
    before, after = free_port(), free_port()
    async with RunningNode(tmp_path, ALWAYS, bind(before)) as running:
        steady = await running.connect("steady", listener="tcp:steady")
        client, old = await running.connect("c"), await running.connect("old", version=p.V3_1_1)
        assert await running.change(bind(after))
        disconnect = await client.until_closed()
        assert disconnect is not None
        assert disconnect.code == rc.ADMINISTRATIVE_ACTION
        assert await old.until_closed() is None
        await steady.ping()
        assert running.listener().port == after
        await (await running.connect("c")).ping()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", before)


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
async def test_the_same_port_is_taken_over_by_another_listener(tmp_path: Path, host: str) -> None:
    port, certificate = free_port(), Authority(tmp_path).server()
    async with RunningNode(tmp_path, ALWAYS, bind(port)) as running:
        client = await running.connect("c")
        secure = "listeners.tcp.default.enable = false\n" + bind(port, host, "ssl")
        assert await running.change(f'{secure}listeners.ssl.default.ssl_options.certfile = "{certificate}"\n')
        assert await client.until_closed() is not None
        tls = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
        await (await running.connect("d", listener="ssl:default", tls=tls)).ping()
        assert await running.change(bind(port))
        await (await running.connect("e")).ping()


async def test_listeners_exchange_their_addresses(tmp_path: Path) -> None:
    one, other = free_port(), free_port()

    def settings(first: int, second: int) -> str:
        return bind(first) + f'listeners.tcp.second {{ bind = "127.0.0.1:{second}", mountpoint = "x/" }}\n'

    async with RunningNode(tmp_path, ALWAYS, settings(one, other)) as running:
        assert await running.change(settings(other, one))
        assert [running.listener(name).port for name in ("tcp:default", "tcp:second")] == [other, one]
        await (await running.connect("c")).ping()
        await (await running.connect("d", listener="tcp:second")).ping()


async def test_a_unix_socket_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "mqtt.sock"
    settings = f'listeners.tcp.default.enable = false\nlisteners.tcp.NAME.bind = "unix:{path}"\n'
    async with RunningNode(tmp_path, ALWAYS, settings.replace("NAME", "one")) as running:
        assert await running.change(settings.replace("NAME", "other"))
        assert path.is_socket()
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(b"\xe0\x00")  # no CONNECT: it is closed
        assert await reader.read() == b""
        writer.close()
    assert not path.exists()


async def test_a_port_in_use_or_a_wrong_certificate_refuses_the_whole_change(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    port, free = free_port(), free_port()
    with socket.create_server(("127.0.0.1", port)):
        async with RunningNode(tmp_path, ALWAYS, bind(0)) as running:
            client = await running.connect("c", version=p.V3_1_1)
            ws = f'listeners.ws.default.bind = "127.0.0.1:{free}"\nmqtt.max_packet_size = 20\n'
            wrong = bind(port, kind="ssl") + 'listeners.ssl.default.ssl_options.certfile = "/nowhere.pem"\n'
            for settings, code in ((bind(port), "listener_bind"), (bind(0) + wrong, "listener_certificate")):
                caplog.clear()
                assert not await running.change(settings + ws)
                assert f"nothing is applied [{code}]" in "\n".join(caplog.messages)
                with pytest.raises(ConnectionRefusedError):
                    await asyncio.open_connection("127.0.0.1", free)
            await client.publish("t", b"x" * 50)
            await client.ping()
            assert await running.change(bind(0) + ws)  # what was bound for it is free again


async def test_settings_of_a_listener_change_for_new_connections(tmp_path: Path) -> None:
    async with RunningNode(tmp_path, ALWAYS, bind(0)) as running:
        client = await running.connect("c")
        await client.subscribe("#")
        port = running.listener().port
        settings = 'listeners.tcp.default { proxy_protocol = true, mountpoint = "m/", max_conn_rate = "1000/1s" }\n'
        assert await running.change(bind(0) + settings)
        assert running.listener().port == port
        behind = await running.open()
        behind.send_bytes(b"PROXY TCP4 192.0.2.7 192.0.2.1 5000 1883\r\n")
        behind.send_connect("d")
        await behind.take(p.Connack)
        found = running.node.parts.get(type(running.listeners)).listeners
        assert len(found) == 2
        await behind.publish("t", b"x")
        assert (await client.take(p.Publish)).topic == b"m/t"


async def test_certificates_and_authorities_change_for_new_connections(tmp_path: Path) -> None:
    authorities = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        authorities.append(Authority(tmp_path / name))
    one, other = authorities

    def settings(authority: Authority) -> str:
        files = f'certfile = "{authority.server()}", cacertfile = "{authority.cafile}"'
        return bind(0, kind="ssl") + f"listeners.ssl.default.ssl_options {{ {files} }}\n" + bind(0)

    def trusting(authority: Authority) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(authority.cafile))

    async with RunningNode(tmp_path, ALWAYS, settings(one)) as running:
        client = await running.connect("c", listener="ssl:default", tls=trusting(one))
        assert await running.change(settings(other))
        await client.ping()
        with pytest.raises(ssl.SSLCertVerificationError):
            await running.open("ssl:default", tls=trusting(one))
        await (await running.connect("d", listener="ssl:default", tls=trusting(other))).ping()
        demands = "listeners.ssl.default.ssl_options { verify = verify_peer, fail_if_no_peer_cert = true }\n"
        assert await running.change(settings(other) + demands)
        refused = await running.open("ssl:default", tls=trusting(other))
        refused.send_connect("e")
        await refused.until_closed()
        await client.ping()


async def test_client_attributes_change_for_new_connections_and_their_counts_go_on(tmp_path: Path) -> None:
    settings = "mqtt.client_attrs_init = [{ expression = clientid, set_as_attr = a }]\n"
    mounted = 'listeners.tcp.default.mountpoint = "${client_attrs.a}/"\n'
    async with RunningNode(tmp_path, ALWAYS, bind(0) + settings) as running:
        watcher = await running.connect("watcher")
        await watcher.subscribe("#")
        assert await running.change(bind(0) + settings.replace("clientid", "username") + mounted)
        client = await running.connect("c", username="joe")
        await client.publish("t", b"x")
        assert (await watcher.take(p.Publish)).topic == b"joe/t"
        assert running.node.statistics()["client_attrs.made"] == 2


async def test_a_listener_is_stopped_started_and_restarted(tmp_path: Path) -> None:
    async with RunningNode(tmp_path, ALWAYS, bind(free_port())) as running:
        part, port = running.listeners, running.listener().port
        steady = await running.connect("steady", listener="tcp:steady")
        client = await running.connect("c")
        assert part.stop_listener("tcp:default")
        assert not part.stop_listener("tcp:default")
        assert await client.until_closed() is not None
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
        with pytest.raises(ListenerError, match="was stopped: start it"):
            part.restart_listener("tcp:default")
        assert await running.change(bind(port) + "listeners.tcp.default.max_connections = 7\n")
        with pytest.raises(ConnectionRefusedError):  # it stays stopped
            await asyncio.open_connection("127.0.0.1", port)
        assert await part.start_listener("tcp:default")
        assert not await part.start_listener("tcp:default")
        assert running.listener().settings.max_connections == 7
        client = await running.connect("c")
        part.restart_listener("tcp:default")
        assert await client.until_closed() is not None
        await (await running.connect("c")).ping()
        await steady.ping()
        with pytest.raises(UnknownListenerError, match="no listener 'tcp:nothing'"):
            part.stop_listener("tcp:nothing")


async def test_listeners_are_not_started_and_stopped_while_they_change(tmp_path: Path) -> None:
    async with RunningNode(tmp_path, ALWAYS, bind(0)) as running:
        plan = await running.node.parts.check(running.load(bind(free_port())))
        with pytest.raises(ListenerBusyError):
            running.listeners.stop_listener("tcp:default")
        running.node.parts.undo(plan)
        assert running.listeners.stop_listener("tcp:default")


async def test_a_listener_is_not_started_or_stopped_while_another_one_waits_for_its_address(tmp_path: Path) -> None:
    async with RunningNode(tmp_path, ALWAYS, bind(0)) as running:
        loop = asyncio.get_running_loop()
        waits, go_on, look_up = asyncio.Event(), asyncio.Event(), loop.getaddrinfo

        async def slowly(*asked: object, **options: object) -> object:
            waits.set()
            await go_on.wait()
            return await look_up(*asked, **options)  # type: ignore[arg-type]  # as they came

        assert running.listeners.stop_listener("tcp:default")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(loop, "getaddrinfo", slowly)
            changing = asyncio.create_task(running.change(bind(0) + 'listeners.tcp.more.bind = "127.0.0.1:0"\n'))
            await waits.wait()
            with pytest.raises(ListenerBusyError):
                await running.listeners.start_listener("tcp:default")
            with pytest.raises(ListenerBusyError):
                running.listeners.stop_listener("tcp:steady")
            go_on.set()
            assert await changing
            # The other way round: a change waits for a listener that is being started.
            waits.clear()
            go_on.clear()
            starting = asyncio.create_task(running.listeners.start_listener("tcp:default"))
            await waits.wait()
            changing = asyncio.create_task(running.change(bind(0)))
            go_on.set()
            assert await starting
            assert await changing
        assert [one.is_listening for one in running.listeners.listeners] == [True, True]
        await (await running.connect("c")).ping()


async def test_a_replaced_listener_warns_where_it_lets_every_client_in(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with RunningNode(tmp_path, ALWAYS, bind(0)) as running:
        with caplog.at_level(logging.INFO):
            assert await running.change(bind(free_port(), "0.0.0.0"))
        assert "EVERY CLIENT THAT REACHES tcp:default" in "\n".join(caplog.messages)
