"""The table of probes: what shows through MQTT that another value of a setting holds on a node that runs.

The test imports each module of probes, and fails for a setting without one. A probe is an asynchronous generator: what
stands before its `yield` happens before the change, what stands behind it afterwards.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from heliograph.mqtt import packets as p
from support.certificates import Authority
from support.packets import PropertyValue
from support.running import MqttClient, RunningNode
from support.waiting import until

Run = Callable[["World"], AsyncIterator[None]]


@dataclass(frozen=True, slots=True)
class Probe:
    """How one change is made and shown.

    Attributes:
        path: The setting, as the documentation names it, or the group whose elements are replaced together.
        settings: What the configuration says then beside what it always says; `DIRECTORY` is that of the world.
        run: The probe.
        listener: Where its clients connect.
    """

    path: str
    settings: str
    run: Run
    listener: str = "tcp:default"


PROBES: list[Probe] = []


class Closes(Protocol):
    """What a probe leaves open."""

    def close(self) -> None: ...


class World:
    """The node that all probes share, as one of them sees it.

    Args:
        running: The node.
        authority: The one that the node's certificates are of.
        directory: Where its files lie.
        listener: Where the clients of the probe connect.
    """

    def __init__(self, running: RunningNode, authority: Authority, directory: Path, listener: str) -> None:
        self.running = running
        self.authority = authority
        self.directory = directory
        self.listener = listener
        self._clients: list[MqttClient] = []
        self._closes: list[Closes] = []

    async def open(
        self, *, version: int = p.V5, listener: str = "", tls: ssl.SSLContext | None = None, header: bytes = b""
    ) -> MqttClient:
        """A connection that has sent nothing yet."""
        name = listener or self.listener
        if tls is None and name.partition(":")[0] in ("ssl", "wss"):
            tls = self.tls()
        client = await self.running.open(name, version, tls, header)
        self._clients.append(client)
        return client

    async def connect(
        self,
        clientid: str = "probe",
        *,
        listener: str = "",
        tls: ssl.SSLContext | None = None,
        version: int = p.V5,
        clean_start: bool = True,
        keepalive_s: int = 0,
        username: str | None = None,
        password: bytes | None = None,
        will: p.Will | None = None,
        **named: PropertyValue,
    ) -> MqttClient:
        """A client that is let in."""
        client = await self.open(version=version, listener=listener, tls=tls)
        client.send_connect(
            clientid,
            clean_start=clean_start,
            keepalive_s=keepalive_s,
            username=username,
            password=password,
            will=will,
            **named,
        )
        connack = await client.take(p.Connack)
        assert connack.code == 0, hex(connack.code)
        return client

    def tls(self, certificate: Path | None = None) -> ssl.SSLContext:
        """What a TLS client trusts, and the certificate that it shows."""
        context = ssl.create_default_context(cafile=str(self.authority.cafile))
        if certificate is not None:
            context.load_cert_chain(certificate)
        return context

    def closes(self, one: Closes) -> None:
        """Close something at the end of the probe."""
        self._closes.append(one)

    async def plain(self) -> socket.socket:
        """A socket that is connected to the listener of the probe."""
        sock = await self.running.plain(self.listener)
        self.closes(sock)
        return sock

    async def until_refused(self, sent: bytes = b"") -> None:
        """See a new connection being closed without a word."""
        sock = await self.plain()
        loop = asyncio.get_running_loop()
        with suppress(ConnectionResetError):
            await loop.sock_sendall(sock, sent)
            assert await loop.sock_recv(sock, 1024) == b""

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something that the node counts has happened: its loop is that of the test."""
        await until(condition, 240)

    def number(self, name: str) -> float:
        """A counter or size of the node."""
        return self.running.node.statistics()[name]

    async def leave(self) -> None:
        """End the connections of the probe, and wait until the node has closed its ends."""
        for client in self._clients:
            client.is_reading.set()
            await client.leave()
        for one in self._closes:
            one.close()


def probe(path: str, value: str) -> Callable[[Run], Run]:
    """Note a probe of a setting under its path.

    Args:
        value: The other value, in HOCON.
    """
    return probe_text(path, f"{path} = {value}")


def probe_text(path: str, settings: str) -> Callable[[Run], Run]:
    """Note a probe whose change is more than one value."""

    def note(run: Run) -> Run:
        PROBES.append(Probe(path, settings, run))
        return run

    return note


def zoned_probe(path: str, value: str) -> Callable[[Run], Run]:
    """Note a probe of a setting of the root, and of the same one in a zone."""

    def note(run: Run) -> Run:
        PROBES.append(Probe(path, f"{path} = {value}", run))
        PROBES.append(Probe(f"zones.NAME.{path}", f"zones.one.{path} = {value}", run, "tcp:one"))
        return run

    return note


def zoned_probe_text(path: str, group: str) -> Callable[[Run], Run]:
    """As `zoned_probe`, where the change is more than one value of the group that the setting is in."""
    root = path.partition(".")[0]

    def note(run: Run) -> Run:
        PROBES.append(Probe(path, f"{root} {{ {group} }}", run))
        PROBES.append(Probe(f"zones.NAME.{path}", f"zones.one.{root} {{ {group} }}", run, "tcp:one"))
        return run

    return note


def listener_probe(kinds: str, setting: str, settings: str) -> Callable[[Run], Run]:
    """Note a probe of a setting of the listeners `probe` of some kinds.

    Args:
        kinds: The kinds, with blanks between them.
        setting: The setting, as it stands below a listener.
        settings: What a listener says then.
    """

    def note(run: Run) -> Run:
        for kind in kinds.split():
            text = f"listeners.{kind}.probe {{ {settings} }}"
            PROBES.append(Probe(f"listeners.{kind}.NAME.{setting}", text, run, f"{kind}:probe"))
        return run

    return note
