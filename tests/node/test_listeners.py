"""Listeners as an operator configures them: every kind at once, zones, and mistakes told at the start."""

import asyncio
import re
import ssl
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from heliograph.channel.context import ChannelContext
from heliograph.config.loading import load_config
from heliograph.node.client_attrs import ZoneAttributes
from heliograph.node.listeners import make_listeners
from heliograph.outbound import Outbound
from heliograph.rules.parts import make_environment
from heliograph.transport.listener import Listener
from support.certificates import Authority
from support.kernel import Kernel
from support.listening import CONNACK, CONNECT
from support.options import LISTENER
from support.process import NodeProcess
from support.websocket import answer, frame, request


def listeners_of(tmp_path: Path, text: str) -> dict[str, Listener]:
    file = tmp_path / "node.conf"
    file.write_text(text)
    context: ChannelContext = Kernel().context
    config = load_config(file)
    attributes = ZoneAttributes(config, context.clock, make_environment(config, Outbound()))
    return make_listeners(config, context, attributes)


def test_a_listener_that_is_switched_off_is_not_made(tmp_path: Path) -> None:
    text = "listeners { tcp.default.enable = false, tcp.other.bind = 0, ws.default {} }"
    assert list(listeners_of(tmp_path, text)) == ["tcp:other", "ws:default"]


def test_a_listener_gives_its_channels_its_zone_and_its_own_settings(tmp_path: Path) -> None:
    text = """
        mqtt.max_packet_size = 100KB
        zones.small.mqtt.max_packet_size = 1KB
        listeners.tcp.default { zone = small, mountpoint = "site/1/", enable_authn = false }
        listeners.tcp.other { messages_rate = "60/1m", messages_burst = 5, bytes_rate = "1KB/s", bytes_burst = 1MB }
        listeners.tcp.other.bind = 0
        listeners.ws.strict.enable_authn = quick_deny_anonymous
    """
    made = listeners_of(tmp_path, text)
    default, other, strict = (made[name].options for name in ("tcp:default", "tcp:other", "ws:strict"))
    assert (default.zone, default.max_packet_size, default.listener.mountpoint) == ("small", 1024, "site/1/")
    assert (other.zone, other.max_packet_size) == ("default", 102_400)
    assert default.listener == replace(LISTENER, mountpoint="site/1/", enable_authn=False)
    assert (other.listener.name, other.listener.enable_authn) == ("tcp:other", True)
    assert (other.listener.messages_rate, other.listener.messages_burst) == (1.0, 5.0)
    assert (other.listener.bytes_rate, other.listener.bytes_burst) == (1024.0, 1_048_576.0)
    assert (strict.listener.enable_authn, strict.listener.deny_anonymous) == (True, True)


@pytest.mark.service
@pytest.mark.slow
async def test_every_kind_of_listener_at_once(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate = f'ssl_options.certfile = "{authority.server()}"'
    settings = f"""
        durable_storage.flight.enable = false
        listeners.tcp.six.bind = "[::1]:0"
        listeners.tcp.local.bind = "unix:{tmp_path}/mqtt.sock"
        listeners.ssl.default {{ bind = "127.0.0.1:0", {certificate} }}
        listeners.ws.default.bind = "127.0.0.1:0"
        listeners.wss.default {{ bind = "127.0.0.1:0", {certificate}, websocket.mqtt_path = "/live" }}
    """
    with NodeProcess(tmp_path, settings) as node:
        places = re.findall(r"mqtt (\w+)(?:://(\S+?):(\d+)|:)(/[^,]*)?(?:,|$)", node.ready_line)
        assert [(kind, host, path) for kind, host, _, path in places] == [
            ("tcp", "127.0.0.1", ""),
            ("tcp", "[::1]", ""),
            ("unix", "", f"{tmp_path}/mqtt.sock"),
            ("ssl", "127.0.0.1", ""),
            ("ws", "127.0.0.1", "/mqtt"),
            ("wss", "127.0.0.1", "/live"),
        ]
        for kind, host, port, path in places:
            tls: ssl.SSLContext | None = authority.context() if kind in ("ssl", "wss") else None
            if kind == "unix":
                reader, writer = await asyncio.open_unix_connection(path)
            else:
                name = "localhost" if tls is not None else None
                reader, writer = await asyncio.open_connection(host.strip("[]"), port, ssl=tls, server_hostname=name)
            is_framed = kind in ("ws", "wss")
            writer.write(request(path=path) + frame(CONNECT) if is_framed else CONNECT)
            if is_framed:
                await reader.readuntil(b"\r\n\r\n")
            expected = answer(CONNACK) if is_framed else CONNACK
            assert await reader.readexactly(len(expected)) == expected
            writer.close()
        assert node.stop() == 0
    assert not (tmp_path / "mqtt.sock").exists()


@pytest.mark.service
@pytest.mark.slow
def test_a_start_that_fails_names_the_setting_and_the_code(tmp_path: Path) -> None:
    file = tmp_path / "node.conf"
    file.write_text(
        'listeners.ssl.default { bind = "127.0.0.1:0", ssl_options.certfile = "/no/such/file.pem" }\n'
        "durable_storage.flight.enable = false\n"
    )
    command = [sys.executable, "-m", "heliograph.cli.main", "start", "--config", str(file)]
    result = subprocess.run(
        [*command, "--data-dir", str(tmp_path / "data")], capture_output=True, text=True, timeout=30, check=False
    )
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1] == (
        "heliograph: [listener_certificate] "
        'listeners.ssl.default.ssl_options.certfile = "/no/such/file.pem": No such file or directory'
    )
