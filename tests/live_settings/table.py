"""The table of probes: what shows through MQTT that another value of a setting holds on a node that runs.

The test imports each module of probes, and fails for a setting without one. A probe is an asynchronous generator: what
stands before its `yield` happens before the change, what stands behind it afterwards.
"""

import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

from heliograph.mqtt import packets as p
from support.certificates import Authority
from support.packets import PropertyValue
from support.running import MqttClient, RunningNode

Run = Callable[["World"], AsyncIterator[None]]


@dataclass(frozen=True, slots=True)
class Probe:
    """How one change is made and shown.

    Attributes:
        path: The setting, as the documentation names it, or the group whose elements are replaced together.
        settings: What the configuration says then beside what it always says.
        run: The probe.
        zone: The zone whose clients it looks at.
    """

    path: str
    settings: str
    run: Run
    zone: str = "default"


PROBES: list[Probe] = []


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

    async def open(self, *, version: int = p.V5, listener: str = "", tls: ssl.SSLContext | None = None) -> MqttClient:
        """A connection that has sent nothing yet."""
        client = await self.running.open(listener or self.listener, version, tls)
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
        will: p.Will | None = None,
        **named: PropertyValue,
    ) -> MqttClient:
        """A client that is let in."""
        client = await self.open(version=version, listener=listener, tls=tls)
        client.send_connect(
            clientid, clean_start=clean_start, keepalive_s=keepalive_s, username=username, will=will, **named
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

    def number(self, name: str) -> float:
        """A counter or size of the node."""
        return self.running.node.statistics()[name]

    async def leave(self) -> None:
        """End the connections of the probe, and wait until the node has closed its ends."""
        for client in self._clients:
            await client.leave()


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
        PROBES.append(Probe(f"zones.NAME.{path}", f"zones.one.{path} = {value}", run, "one"))
        return run

    return note


def zoned_probe_text(path: str, group: str) -> Callable[[Run], Run]:
    """As `zoned_probe`, where the change is more than one value of the group that the setting is in."""
    root = path.partition(".")[0]

    def note(run: Run) -> Run:
        PROBES.append(Probe(path, f"{root} {{ {group} }}", run))
        PROBES.append(Probe(f"zones.NAME.{path}", f"zones.one.{root} {{ {group} }}", run, "one"))
        return run

    return note
