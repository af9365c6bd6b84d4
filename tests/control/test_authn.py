"""`heliograph ctl authn` with a node that runs: what it changes is the configuration."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import jwt
import pytest

from heliograph.access.authentication.part import AuthenticationPart
from heliograph.cli.main import main
from heliograph.config.authentication import JwtConfig
from support.live_node import LiveNode

SETTINGS = """
listeners.tcp.default.bind = "127.0.0.1:0"
listeners.tcp.own { bind = "127.0.0.1:0" }
durable_storage { messages.topics = [], flight.enable = false }
"""
SECRET = "a secret that is long enough for every hash"
JWT = f'{{ mechanism = jwt, secret = "{SECRET}" }}'
CINFO = "{ mechanism = cinfo, checks = [ { is_match = \"str_eq(username, 'u')\", result = allow } ] }"
HTTP = """{ mechanism = password_based, backend = http, method = get, url = "http://127.0.0.1:9/"
  headers { key = "s3cret" } }"""


class Commanded(LiveNode):
    """A node in this process that `ctl authn` asks."""

    def __init__(self, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
        super().__init__(directory, "", SETTINGS)
        self._capsys = capsys

    async def run(self, *words: str) -> tuple[int, str]:
        """Run `heliograph ctl authn WORDS`: exit code and what was printed."""
        code = await asyncio.to_thread(main, ["ctl", "authn", *words, "--data-dir", str(self.data_dir)])
        output = self._capsys.readouterr()
        return code, output.out + output.err

    async def ctl(self, *words: str) -> str:
        """What it prints, if it succeeds."""
        code, said = await self.run(*words)
        assert code == 0, said
        return said

    async def refused(self, *words: str) -> str:
        """What it says is wrong."""
        code, said = await self.run(*words)
        assert code == 1, said
        return said

    async def ids(self, chain: str = "global") -> list[str]:
        """The authenticators of a chain."""
        rows = [json.loads(line) for line in (await self.ctl("list", "--json")).splitlines()]
        return [row["id"] for row in rows if row["chain"] == chain]

    def secret(self) -> bool:
        """Whether the authenticator `jwt` takes a token of the secret."""
        members = self.node.parts.get(AuthenticationPart).chains()[""]
        settings = next(one.settings for one in members if isinstance(one.settings, JwtConfig))
        return bool(jwt.decode(jwt.encode({"a": 1}, SECRET, "HS256"), settings.secret.reveal(), ["HS256"]))


@pytest.fixture
async def node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> AsyncIterator[Commanded]:
    running = Commanded(tmp_path, capsys)
    await running.start()
    yield running
    await running.stop()


async def test_authenticators_are_added_changed_moved_switched_and_deleted(node: Commanded) -> None:
    assert await node.ctl("list") == "CHAIN  ID  STATE  TOTAL  SUCCESS  FAILED  NOMATCH  IGNORED  ERROR\n"
    assert "the global chain has jwt" in await node.ctl("add", JWT)
    assert "the global chain has jwt, cinfo" in await node.ctl("add", CINFO)
    assert "'jwt' is there already" in await node.refused("add", JWT)
    await node.ctl("add", HTTP)
    assert await node.ids() == ["jwt", "cinfo", "password_based:http"]
    await node.ctl("move", "cinfo", "front")
    await node.ctl("move", "jwt", "after:password_based:http")
    assert await node.ids() == ["cinfo", "password_based:http", "jwt"]
    assert "front, rear" in await node.refused("move", "jwt", "up")
    assert "there is no authenticator 'nothing'" in await node.refused("move", "jwt", "before:nothing")
    await node.ctl("order", "jwt", "cinfo", "password_based:http")
    assert "has to name each of" in await node.refused("order", "jwt")
    await node.ctl("disable", "password_based:http")
    assert "disabled" in await node.ctl("status", "password_based:http")
    await node.ctl("enable", "password_based:http")
    assert await node.ids() == ["jwt", "cinfo", "password_based:http"]
    await node.ctl("delete", "password_based:http")
    assert "there are: jwt, cinfo" in await node.refused("delete", "password_based:http")
    assert await node.ids() == ["jwt", "cinfo"]


async def test_secrets_are_stars_and_stars_keep_them(node: Commanded) -> None:
    await node.ctl("add", JWT)
    await node.ctl("add", HTTP)
    shown = await node.ctl("show", "jwt")
    assert SECRET not in shown
    assert json.loads(shown)["secret"] == "******"
    assert "s3cret" not in await node.ctl("show", "password_based:http")
    await node.ctl("update", "jwt", json.dumps(json.loads(shown) | {"from": "username"}))
    assert json.loads(await node.ctl("show", "jwt"))["from"] == "username"
    await node.ctl("order", "password_based:http", "jwt")
    assert node.secret()


async def test_a_listener_has_a_chain_of_its_own(node: Commanded) -> None:
    assert "the tcp:own chain has cinfo" in await node.ctl("add", CINFO, "--listener", "tcp:own")
    assert await node.ids("tcp:own") == ["cinfo"]
    assert await node.ids() == []
    assert "is no listener" in await node.refused("add", CINFO, "--listener", "own")
    assert "the global chain holds for it" in await node.ctl("delete", "cinfo", "--listener", "tcp:own")
    assert await node.ids("tcp:own") == []


async def test_what_makes_no_sense_is_refused_and_changes_nothing(node: Commanded) -> None:
    await node.ctl("add", CINFO)
    assert "expected one of" in await node.refused("add", "{ mechanism = magic }")
    assert "with mechanism and backend" in await node.refused("add", "{}")
    assert "needs secret" in await node.refused("add", "{ mechanism = jwt }")
    assert "cannot change" in await node.refused("update", "cinfo", JWT)
    assert "give all settings of cinfo, with mechanism = cinfo" in await node.refused("update", "cinfo", "checks = []")
    assert "there is no variable" in await node.refused("update", "cinfo", CINFO.replace("username", "user"))
    assert "keeps a secret as it is, but none is set" in await node.refused(
        "add", '{ mechanism = jwt, secret = "******" }'
    )
    assert await node.ids() == ["cinfo"]
