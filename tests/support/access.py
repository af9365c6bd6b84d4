"""What tests of access control share: a node with authenticators that is watched while its backends come and go."""

import asyncio
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Self

from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from support.running import MqttClient, RunningNode

ALWAYS = """
durable_storage.flight.enable = false
listeners.tcp.default.bind = "127.0.0.1:0"
listeners.tcp.open { bind = "127.0.0.1:0", enable_authn = false }
"""
#: What no user name, client id or password may be more than a value of.
INJECTIONS = (
    "*", "?", "a*", "alice*", "ali?e", "alice)(uid=*", "*)(uid=*))(|(uid=*", "alice)(&)", "alice\\2a", "\\2a", "(", ")",
    "alice,ou=users", "alice+uid=bob", 'alice"', "alice'", "' OR '1'='1", "alice' --", "alice; DROP TABLE users",
    "alice password_hash", "alice\r\nFLUSHALL\r\n", "alice\npassword", '" HGET', "{alice}", "$ne", '{"$ne": ""}',
    '{"$gt": ""}', "$where", "username.$", "${username}", "${password}", "${clientid}", "%u", "%s%n", "../alice",
    " alice", "alice ", "ALICE\u200b", "alice\u00ad",
)  # fmt: skip


class WatchedNode(RunningNode):
    """A node whose alarms are seen by a client that no authenticator is asked about.

    The listener `tcp:open` lets everybody in.
    """

    def __init__(self, directory: Path, settings: str = "") -> None:
        super().__init__(directory, ALWAYS, settings)
        self._rest = directory / "rest.conf"
        self._rest.write_text('{allow, {clientid, "watcher"}, all, all}.\n{deny, all}.\n')
        self._watcher: MqttClient | None = None

    def asking(self, source: str) -> str:
        """The setting of a source of authorization, behind which everything is denied."""
        return f'authorization.sources = [ {source}, {{ type = file, path = "{self._rest}" }} ]'

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self._watcher = await self.connect("watcher", listener="tcp:open")
        await self._watcher.subscribe("$SYS/brokers/+/alarms/+")
        return self

    async def until_alarm(self, change: str, backend: str) -> None:
        """Wait until the alarm of a backend begins (`activate`) or ends (`deactivate`)."""
        assert self._watcher is not None
        await self._watcher.take(
            p.Publish,
            lambda one: one.topic.endswith(f"/{change}".encode()) and f"backend_down/{backend}".encode() in one.payload,
        )

    async def forget_alarms(self) -> None:
        """Have `until_alarm` wait for what comes from now on."""
        assert self._watcher is not None
        await self._watcher.payloads()

    async def check_users(self, clientid: str = "c") -> None:
        """Try the users `alice` (password `secret`) and `root` (`toor`, a superuser), and such as there are not."""
        assert await self.connack(clientid, "alice", b"secret") == rc.SUCCESS
        assert await self.connack(clientid, "alice", b"secret", version=p.V3_1_1) == rc.SUCCESS
        for wrong in (b"Secret", b"secret ", b"", b"toor", bytes(65_535), b"\xff\0"):
            assert await self.connack(clientid, "alice", wrong) == rc.BAD_USERNAME_OR_PASSWORD
        for unknown in ("bob", "Alice", "", None):
            assert await self.connack(clientid, unknown, b"secret") == rc.NOT_AUTHORIZED
        assert await self.connack(clientid, "alice") == rc.NOT_AUTHORIZED
        assert await self.is_superuser("root", b"toor")
        assert not await self.is_superuser("alice", b"secret")

    async def login(self, clientid: str, username: str, password: bytes | None = None) -> MqttClient:
        """A client that is let in."""
        client = await self.open()
        client.send_connect(clientid, username=username, password=password)
        assert (await client.take(p.Connack)).code == rc.SUCCESS
        return client

    async def is_superuser(self, username: str, password: bytes) -> bool:
        """Whether a user that is let in is a superuser."""
        client = await self.login("who", username, password)
        found = self.client("who").is_superuser
        await client.leave()
        return found

    async def check_injections(self, but: Collection[str] = ()) -> None:
        """Nothing that a client says of itself lets it in: neither name nor password nor client id.

        Args:
            but: Names that the backend takes for that of the user.
        """
        for text in (one for one in INJECTIONS if one not in but):
            assert await self.connack("c", text, b"secret") != rc.SUCCESS, text
            assert await self.connack("c", "alice", text.encode()) != rc.SUCCESS, text
            assert await self.connack(text, text, text.encode()) != rc.SUCCESS, text

    async def check_rights(self) -> None:
        """Try what `alice` may: publish to `p/${clientid}`, subscribe to `s/+` and exactly `e/+/c`, and use `b/#`."""
        client = await self.login("c", "alice")
        for topic, code in {
            "p/c": rc.SUCCESS,
            "p/d": rc.NOT_AUTHORIZED,
            "b/x": rc.SUCCESS,
            "s/x": rc.NOT_AUTHORIZED,
        }.items():
            assert await client.publish(topic, qos=1) == code, topic
        allowed, denied = ("s/x", "s/+", "b/#", "e/+/c"), ("s/#", "#", "p/c", "e/x/c", "$SYS/#")
        for topic in allowed:
            assert await client.subscribe(topic) == rc.SUCCESS, topic
        for topic in denied:
            assert await client.subscribe(topic) == rc.NOT_AUTHORIZED, topic
        await client.leave()
        for clientid in ("+", "#"):
            client = await self.login(clientid, "alice")
            assert await client.publish("p/c", qos=1) == rc.NOT_AUTHORIZED
            await client.leave()

    async def check_outage(self, stop: Callable[[], object], start: Callable[[], object], backend: str) -> None:
        """A server stops and starts while clients connect: none of them gets in, and no other one notices."""
        other = await self.connect("other", listener="tcp:open")
        stop()
        codes = await asyncio.gather(*(self.connack(f"c{number}", "alice", b"secret") for number in range(30)))
        assert set(codes) == {rc.NOT_AUTHORIZED}
        await self.until_alarm("activate", backend)
        await other.subscribe("t")
        await other.publish("t", b"still there", 1)
        assert await other.payloads() == [b"still there"]
        await other.leave()
        start()
        await self.until_alarm("deactivate", backend)

    async def check_refused_password(self, settings: str, backend: str) -> None:
        """The server does not take the password of these settings: an alarm says so, until they are gone."""
        assert await self.change(settings)
        await self.until_alarm("activate", backend)
        assert await self.connack("c", "alice", b"secret") == rc.NOT_AUTHORIZED
        assert await self.change()
        await self.until_alarm("deactivate", backend)

    async def check_named_rights(self, but: Collection[str] = ()) -> None:
        """Nobody has the rights of `alice` by a name that is read as more than a value; see `check_injections`."""
        for text in (one for one in ("bob", *INJECTIONS) if one not in but):
            client = await self.login("c", text)
            assert await client.publish("p/c", qos=1) == rc.NOT_AUTHORIZED, text
            assert await client.subscribe("s/x") == rc.NOT_AUTHORIZED, text
            await client.leave()
