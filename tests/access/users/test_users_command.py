"""`heliograph ctl users` as an administrator types it, and what clients notice, on a node that runs."""

import asyncio
import json
import threading
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from hashlib import pbkdf2_hmac, sha256, sha512
from pathlib import Path

import bcrypt
import pytest

from heliograph.access.passwords import PasswordPool
from heliograph.cli.main import main
from heliograph.config.passwords import PasswordThreads
from heliograph.config_changes.edits import REPLACE, Edit
from heliograph.config_changes.errors import ConfigChangeError
from heliograph.config_changes.terms import Terms
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.node.access_records import UsersPart
from heliograph.node.kernel import KernelPart
from heliograph.node.listeners import ListenersPart
from support.live_node import ALICE, BASE, LiveNode
from support.running import MqttClient
from support.scram import ScramClient
from support.waiting import until

BUILT_IN = "{ mechanism = password_based, backend = built_in_database MORE }"
TWO_LISTENERS = BASE + 'listeners.tcp.own.bind = "127.0.0.1:0"\n'


class World:
    """A node, the command, and its clients."""

    def __init__(self, node: LiveNode, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.node = node
        self.directory = directory
        self._capsys = capsys
        self._clients: list[MqttClient] = []

    async def ctl(self, *words: str, password: bytes | None = None, code: int = 0) -> str:
        """What `ctl users` prints; to stderr if it fails."""
        options: list[str] = []
        if password is not None:
            file = self.directory / "password"
            file.write_bytes(password + b"\nmore")
            options = ["--password-file", str(file)]
        line = ["ctl", "users", *words, *options, "--data-dir", str(self.node.data_dir)]
        found = await asyncio.to_thread(main, line)
        out, err = self._capsys.readouterr()
        assert found == code, out + err
        return out if code == 0 else err

    async def have(self, *authenticators: str, listener: str = "") -> None:
        """Have a chain of authenticators."""
        text = f"authentication = [{', '.join(authenticators)}]"
        edit = Edit(f"listeners.tcp.{listener} {{ {text} }}") if listener else Edit(text, REPLACE)
        await self.node.manager.change(edit, ALICE)

    async def open(self, listener: str = "default") -> MqttClient:
        port = self.port_of(listener)
        client = MqttClient(*await asyncio.open_connection("127.0.0.1", port), p.V5)
        self._clients.append(client)
        return client

    def port_of(self, listener: str) -> int:
        part = self.node.node.parts.get(ListenersPart)
        return next(one.port for one in part.listeners if one.name == listener)

    async def connack(
        self, username: str | None, password: bytes | None, clientid: str = "c", listener: str = "default"
    ) -> int:
        """The reason code with which a client is let in or refused."""
        client = await self.open(listener)
        client.send_connect(clientid, username=username, password=password)
        code = (await client.take(p.Connack)).code
        client.close()
        await client.until_closed()
        return code

    @property
    def pool(self) -> PasswordPool:
        return self.node.node.parts.get(UsersPart).passwords

    async def close(self) -> None:
        for client in self._clients:
            client.close()
            await client.until_closed()


@asynccontextmanager
async def world(
    directory: Path, capsys: pytest.CaptureFixture[str], base: str = BASE, settings: str = ""
) -> AsyncIterator[World]:
    made = World(await LiveNode(directory / "node", settings, base).start(), directory, capsys)
    try:
        yield made
    finally:
        await made.close()
        await made.node.stop()


async def test_the_first_user_closes_the_node_to_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    async with world(tmp_path, capsys) as node:
        assert await node.connack(None, None) == rc.SUCCESS
        assert "no authenticator with users" in await node.ctl("list", code=1)
        said = await node.ctl("add", "ann", "--superuser", password=b"s3cret")
        assert "password_based:built_in_database is now in the setting `authentication`" in said
        assert "superuser ann is added" in said
        assert await node.connack(None, None) == rc.NOT_AUTHORIZED
        assert await node.connack("ann", b"s3cret") == rc.SUCCESS
        assert await node.connack("ann", b"S3cret") == rc.BAD_USERNAME_OR_PASSWORD
        assert await node.connack("ann", b"") == rc.BAD_USERNAME_OR_PASSWORD
        assert await node.connack("bob", b"s3cret") == rc.NOT_AUTHORIZED
        assert "already" in await node.ctl("add", "ann", password=b"x", code=1)
        assert "is added" in await node.ctl("add", "bob", password=b"y")
        await node.node.stop()
        await node.node.start()
        assert await node.connack("ann", b"s3cret") == rc.SUCCESS
        assert await node.connack("bob", b"y") == rc.SUCCESS
        assert not any("s3cret" in json.dumps(line) for line in await node.node.audit())
        assert "cret" not in caplog.text


async def test_first_users_may_be_added_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "password"
    file.write_bytes(b"one")
    async with world(tmp_path, capsys) as node:
        where = ["--password-file", str(file), "--data-dir", str(node.node.data_dir)]
        names = [f"u{number}" for number in range(3)]
        lines = [["ctl", "users", "add", name, *where] for name in names]
        assert await asyncio.gather(*(asyncio.to_thread(main, line) for line in lines)) == [0] * 3
        assert [await node.connack(name, b"one") for name in names] == [rc.SUCCESS] * 3


async def test_users_are_changed_listed_and_deleted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with world(tmp_path, capsys) as node:
        await node.have(BUILT_IN.replace("MORE", ", disconnect_on_user_change = true"))
        for number in range(1, 8):
            await node.ctl("add", f"sensor-{number}", password=b"x")
        await node.ctl("add", "ann", "--superuser", password=b"x")
        listed = [json.loads(line) for line in (await node.ctl("list", "--json")).splitlines()]
        assert [row["user_id"] for row in listed] == ["ann", *(f"sensor-{number}" for number in range(1, 8))]
        page = await node.ctl("list", "--like", "sor", "--after", "sensor-2", "--limit", "2", "--json")
        assert [json.loads(line)["user_id"] for line in page.splitlines()] == ["sensor-3", "sensor-4"]
        assert "sensor" not in await node.ctl("list", "--superuser")
        assert "ann" not in await node.ctl("list", "--no-superuser")

        client, other = await node.open(), await node.open()
        client.send_connect("c1", username="sensor-1", password=b"x")
        other.send_connect("c2", username="sensor-2", password=b"x")
        assert (await client.take(p.Connack)).code == (await other.take(p.Connack)).code == rc.SUCCESS
        assert "1 of its connections ended" in await node.ctl("set", "sensor-1", password=b"new")
        said = await client.until_closed()
        assert said is not None
        assert said.code == rc.NOT_AUTHORIZED
        await other.ping()
        assert await node.connack("sensor-1", b"x") == rc.BAD_USERNAME_OR_PASSWORD
        assert await node.connack("sensor-1", b"new") == rc.SUCCESS
        await node.ctl("set", "sensor-2", "--superuser")
        await other.ping()
        assert "sensor-2" in await node.ctl("list", "--superuser")
        await node.ctl("delete", "sensor-2")
        await other.until_closed()
        assert await node.connack("sensor-2", b"x") == rc.NOT_AUTHORIZED
        assert "no user 'sensor-2'" in await node.ctl("delete", "sensor-2", code=1)
        assert "no user" in await node.ctl("show", "sensor-2", code=1)
        assert "no terminal" in await node.ctl("add", "x", code=2)


async def test_a_listener_has_users_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with world(tmp_path, capsys, TWO_LISTENERS) as node:
        await node.have(BUILT_IN.replace("MORE", ""))
        await node.have(BUILT_IN.replace("MORE", ", user_id_type = clientid"), listener="own")
        await node.ctl("add", "ann", password=b"x")
        await node.ctl("add", "c7", "--listener", "tcp:own", password=b"y")
        assert await node.connack("ann", b"x") == rc.SUCCESS
        assert await node.connack("ann", b"x", listener="own") == rc.NOT_AUTHORIZED
        assert await node.connack(None, b"y", "c7", "own") == rc.SUCCESS
        assert await node.connack("ann", b"y", "c7") == rc.BAD_USERNAME_OR_PASSWORD
        assert "no listener 'tcp:x'" in await node.ctl("list", "--listener", "tcp:x", code=1)
        await node.have()
        await node.have(BUILT_IN.replace("MORE", ""))
        assert await node.connack("ann", b"x") == rc.NOT_AUTHORIZED, "its users went with the authenticator"
        assert await node.connack(None, b"y", "c7", "own") == rc.SUCCESS


async def test_files_are_imported_and_exported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with world(tmp_path, capsys) as node:
        salt = b"\xff\xfe0123456789"
        old = b64encode(sha512(b"six" + salt).digest()).decode()
        new = b64encode(pbkdf2_hmac("sha512", b"seven", salt, 101)).decode()
        passwords = tmp_path / "passwd"
        passwords.write_text(
            f"six:$6${b64encode(salt).decode()}${old}\n\nseven:$7$101${b64encode(salt).decode()}${new}\n"
        )
        said = await node.ctl("import", str(passwords), "--format", "mosquitto")
        assert "2 users are new, 0 overwritten" in said
        assert await node.connack("six", b"six") == await node.connack("seven", b"seven") == rc.SUCCESS
        assert await node.connack("six", b"seven") == rc.BAD_USERNAME_OR_PASSWORD
        assert await node.connack("seven", b"six") == rc.BAD_USERNAME_OR_PASSWORD

        hashed = tmp_path / "hashed.csv"
        hashed.write_text(
            "user_id,password_hash,salt,is_superuser\n"
            f"ann,{sha256(b'salt' + b'one').hexdigest()},salt,true\nsix,{sha256(b'zsix').hexdigest()},z,false\n"
        )
        assert "1 user is new, 1 overwritten" in await node.ctl("import", str(hashed), "--type", "hash")
        assert await node.connack("ann", b"one") == rc.SUCCESS
        assert await node.connack("six", b"six") == rc.SUCCESS
        bad = tmp_path / "bad.csv"
        bad.write_text("user_id,password\nnew,pw\nold\n")
        assert "line 3 has 1 fields" in await node.ctl("import", str(bad), code=2)
        assert await node.connack("new", b"pw") == rc.NOT_AUTHORIZED

        exported = tmp_path / "out.json"
        assert "seven" in await node.ctl("export", str(tmp_path / "out.csv"), code=2), "its salt is no text"
        assert "has 3 users" in await node.ctl("export", str(exported))
        assert exported.stat().st_mode & 0o077 == 0
        for name in ("ann", "six", "seven"):
            await node.ctl("delete", name)
        await node.ctl("import", str(exported), "--type", "hash")
        assert await node.connack("ann", b"one") == await node.connack("seven", b"seven") == rc.SUCCESS
        assert "ann" in await node.ctl("list", "--superuser")
        await node.ctl("delete", "seven")
        assert "has 2 users" in await node.ctl("export", str(tmp_path / "out.csv"))
        await node.ctl("delete", "six")
        assert "1 user is new, 1 overwritten" in await node.ctl("import", str(tmp_path / "out.csv"), "--type", "hash")
        assert await node.connack("six", b"six") == rc.SUCCESS


@pytest.mark.parametrize(
    "algorithm", ["name = bcrypt, salt_rounds = 5", "name = plain", "name = sha, salt_position = suffix"]
)
async def test_passwords_are_checked_however_they_are_hashed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], algorithm: str
) -> None:
    async with world(tmp_path, capsys) as node:
        await node.have(BUILT_IN.replace("MORE", f", password_hash_algorithm {{ {algorithm} }}"))
        await node.ctl("add", "ann", password=b"one")
        assert await node.connack("ann", b"one") == rc.SUCCESS
        for wrong in (b"", b"One", b"x" * 65_535, b"one\0", b"\xff"):
            assert await node.connack("ann", wrong) == rc.BAD_USERNAME_OR_PASSWORD
            assert await node.connack("bob", wrong) == rc.NOT_AUTHORIZED
        if "bcrypt" in algorithm:
            assert node.pool.checked == 12, (
                "each login and the new password: a user that there is not costs a check as well"
            )
            assert "72" in await node.ctl("add", "eve", password=b"x" * 73, code=1)
        await node.have(BUILT_IN.replace("MORE", ""))
        assert await node.connack("ann", b"one") == rc.SUCCESS, "the record says how it was hashed"


async def test_a_bootstrap_file_brings_users_when_the_node_starts_and_when_it_changes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "users.json"
    stored = bcrypt.hashpw(b"one", bcrypt.gensalt(4)).decode()
    file.write_text(json.dumps([{"user_id": "ann", "password_hash": stored, "is_superuser": "true"}]))
    more = f', password_hash_algorithm.name = bcrypt, bootstrap_type = hash, bootstrap_file = "{file}"'
    settings = f"authentication = [{BUILT_IN.replace('MORE', more)}]"
    async with world(tmp_path, capsys, settings=settings) as node:
        assert await node.connack("ann", b"one") == rc.SUCCESS
        await node.ctl("set", "ann", password=b"two")
        file.write_text(json.dumps([{"user_id": name, "password_hash": stored} for name in ("ann", "bob", "bob")]))
        await node.node.manager.reload(ALICE)
        assert await node.connack("ann", b"two") == await node.connack("bob", b"one") == rc.SUCCESS
        file.write_text("[]")
        with pytest.raises(Exception, match="no user in the file"):
            await node.node.manager.reload(ALICE)


async def test_a_change_that_is_planned_or_refused_adds_no_user_of_its_bootstrap_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "users.csv"
    file.write_text("user_id,password\nann,one\n")
    asked = BUILT_IN.replace("MORE", f', bootstrap_file = "{file}"')
    async with world(tmp_path, capsys, settings=f"authentication = [{BUILT_IN.replace('MORE', '')}]") as node:
        manager = node.node.manager
        await manager.plan(Edit(f"authentication = [{asked}]"))
        with pytest.raises(ConfigChangeError, match="banned_bootstrap_file"):
            await manager.change(Edit(f'authentication = [{asked}], banned.bootstrap_file = "/nowhere"'), ALICE)
        await asyncio.sleep(0.05)  # long enough for users that are added beside the change
        assert "ann" not in await node.ctl("list")
        node.node.file.write_text(f"authentication = [{asked}]\n")
        await manager.reload(ALICE)
        assert await node.connack("ann", b"one") == rc.SUCCESS, "a client waits until its user is there"


async def test_users_of_an_authenticator_that_is_gone_on_trial_come_back_with_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with world(tmp_path, capsys) as node:
        await node.ctl("add", "ann", password=b"one")
        manager = node.node.manager
        with_users, without = manager.revision, Edit("authentication = []", REPLACE)
        await manager.change(without, ALICE, Terms(confirm_s=60))
        await manager.roll_back(with_users, ALICE)
        assert await node.connack("ann", b"one") == rc.SUCCESS
        await manager.change(without, ALICE, Terms(confirm_s=60))
        await manager.confirm(ALICE)
        await manager.roll_back(with_users, ALICE)
        assert "ann" not in await node.ctl("list")


async def test_more_slow_checks_than_may_wait_are_refused_and_an_alarm(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "users.json"
    stored = bcrypt.hashpw(b"one", bcrypt.gensalt(4)).decode()
    file.write_text(json.dumps([{"user_id": "ann", "password_hash": stored}]))
    more = f', password_hash_algorithm.name = bcrypt, bootstrap_type = hash, bootstrap_file = "{file}"'
    settings = f"authentication = [{BUILT_IN.replace('MORE', more)}]\n"
    limits = """
    authentication_settings { timeout = 60s, password_checks { threads = 1, max_waiting = 2, max_wait = 60s } }
    mqtt.idle_timeout = 60s
    """
    async with world(tmp_path, capsys, settings=settings + limits) as node:
        free = threading.Event()
        held = node.pool.run(lambda: free.wait(30))
        try:
            waiting = await node.open()
            waiting.send_connect("c0", username="ann", password=b"one")
            await until(lambda: node.pool.statistics()["passwords.waiting"] == 2)
            codes = [await node.connack("ann", b"one", f"c{number}") for number in range(1, 5)]
        finally:
            free.set()
            assert await held
        assert (await waiting.take(p.Connack)).code == rc.SUCCESS
        assert codes == [rc.SERVER_BUSY] * 4
        assert node.pool.refused == 4
        assert await node.connack("ann", b"one") == rc.SUCCESS
        alarms = node.node.node.parts.get(KernelPart).alarms
        assert [alarm.name for alarm in alarms.history()] == ["password_checks_busy"]
        assert alarms.active() == []

        node.node.file.write_text(settings + limits.replace("max_waiting = 2,", "max_waiting = 9,"))
        await node.node.manager.reload(ALICE)
        assert (
            await asyncio.gather(*(node.connack("ann", b"one", f"d{number}") for number in range(3)))
            == [rc.SUCCESS] * 3
        )


async def test_no_user_is_added_while_too_many_logins_wait(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with world(tmp_path, capsys) as node:
        await node.have("{ mechanism = scram, backend = built_in_database }")
        free = threading.Event()
        node.pool.use(PasswordThreads(threads=1, max_waiting=1))
        held = node.pool.run(lambda: free.wait(30))
        try:
            told = await node.ctl("add", "ann", "--mechanism", "scram", password=b"one", code=1)
            assert "too many logins wait" in told
        finally:
            free.set()
            assert await held
        assert "ann is added" in await node.ctl("add", "ann", "--mechanism", "scram", password=b"one")


@pytest.mark.parametrize("digest", ["sha256", "sha512"])
async def test_clients_prove_that_they_know_a_password_without_sending_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], digest: str
) -> None:
    async with world(tmp_path, capsys) as node:
        scram = f"{{ mechanism = scram, backend = built_in_database, algorithm = {digest}, iteration_count = 100 }}"
        await node.have(scram, BUILT_IN.replace("MORE", ""))
        await node.ctl("add", "ann", "--mechanism", "scram", "--superuser", password=b"pencil")

        async def outcome(change: Callable[[ScramClient], object] = lambda client: None, **named: object) -> int:
            client = ScramClient(digest, "ann", b"pencil")
            change(client)
            connection = await node.open()
            return await client.connect(connection, **named)  # type: ignore[arg-type]  # what a case adds

        assert await outcome() == rc.SUCCESS
        assert await outcome(username="ann") == rc.SUCCESS
        assert await outcome(username="bob") == rc.NOT_AUTHORIZED, "it would have the rights of another"
        assert await outcome(lambda client: setattr(client, "password", b"pen")) == rc.NOT_AUTHORIZED
        assert await outcome(lambda client: setattr(client, "name", "bob")) == rc.NOT_AUTHORIZED
        assert await outcome(lambda client: setattr(client, "method", "SCRAM-SHA-1")) in (
            rc.NOT_AUTHORIZED,
            rc.BAD_AUTHENTICATION_METHOD,
        )
        assert await node.connack("ann", b"pencil") == rc.NOT_AUTHORIZED

        client, connection = ScramClient(digest, "ann", b"pencil"), await node.open()
        assert await client.connect(connection) == rc.SUCCESS
        assert await client.renew(connection) == rc.SUCCESS
        assert await ScramClient(digest, "ann", b"wrong").renew(connection) == rc.NOT_AUTHORIZED
        await connection.until_closed()
