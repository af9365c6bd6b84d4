"""A token of the storage reader that names a user reads what that user may subscribe to: one set of rights for all."""

import asyncio
import json
from pathlib import Path

import pytest
from pyarrow import flight

from heliograph.access.authentication.built_in_database import ID
from heliograph.access.users.records import PasswordUser
from heliograph.node.access_records import UsersPart
from heliograph.node.reader import ReaderPart
from support.running import RunningNode
from support.waiting import wait_until

pytestmark = pytest.mark.service

TOKENS = {"ann": "the token of ann, 16 at least", "boss": "the token of boss, 16 at least", "ghost": "x" * 20}
SETTINGS = """
listeners.tcp.default { bind = "127.0.0.1:0", enable_authn = false }
authentication = [{ mechanism = password_based, backend = built_in_database, bootstrap_file = "DIRECTORY/users.csv" }]
authorization { no_match = deny, sources = [{ type = file, path = "DIRECTORY/acl.conf" }] }
durable_storage {
  messages.topics = ["#"]
  flight { enable = true, bind = "127.0.0.1:0", tokens = [TOKENS] }
}
"""
RULES = """
{deny, {username, "ann"}, subscribe, ["site/secret/#"]}.
{allow, {username, "ann"}, subscribe, ["site/+/temp", "own/${username}/#", {eq, "exactly"}]}.
{allow, {username, "ann"}, publish, ["only/published"]}.
"""
TOPICS = ["site/a/temp", "site/secret/temp", "site/a/wind", "own/ann/x", "own/boss/x", "exactly", "only/published"]


class Reads:
    """What a caller gets of a reader."""

    def __init__(self, bind: str, user: str) -> None:
        self._client = flight.FlightClient(f"grpc://{bind}")
        header = (b"authorization", f"Bearer {TOKENS[user]}".encode())
        self._options = flight.FlightCallOptions(headers=[header], timeout=20)

    def topics(self, *filters: str, columns: list[str] | None = None) -> list[str]:
        asked = {"database": "messages", "topics": filters or ["#"]}
        (result,) = self._client.do_action(flight.Action("get_streams", json.dumps(asked).encode()), self._options)
        found: list[str] = []
        for stream in json.loads(result.body.to_pybytes())["streams"]:
            ticket = {**asked, "stream": stream["stream"], "columns": columns}
            table = self._client.do_get(flight.Ticket(json.dumps(ticket).encode()), self._options).read_all()
            found += table.column("topic").to_pylist() if columns is None else [""] * table.num_rows
        return sorted(found)


async def test_a_token_reads_what_its_user_may_subscribe_to(tmp_path: Path) -> None:
    (tmp_path / "users.csv").write_text("user_id,password,is_superuser\nann,secret,false\nboss,secret,true\n")
    (tmp_path / "acl.conf").write_text(RULES)
    tokens = ",\n".join(f'{{ name = {user}, token = "{text}", user = {user} }}' for user, text in TOKENS.items())
    always = SETTINGS.replace("DIRECTORY", str(tmp_path)).replace("TOKENS", tokens)
    async with RunningNode(tmp_path, always) as node:
        reader = node.node.parts.get(ReaderPart)

        def reads(user: str) -> list[str] | None:
            try:
                return Reads(reader.bind, user).topics()
            except flight.FlightServerError:  # it is not known yet
                return None

        async def read(user: str, *filters: str, columns: list[str] | None = None) -> list[str]:
            return await asyncio.to_thread(lambda: Reads(reader.bind, user).topics(*filters, columns=columns))

        await node.change("authorization.no_match = allow")
        publisher = await node.connect("publisher")
        for topic in TOPICS:
            await publisher.publish(topic, b"x", 1)
        assert await node.change()
        mine = ["exactly", "own/ann/x", "site/a/temp"]
        await asyncio.to_thread(wait_until, lambda: reads("ann") == mine)  # the reader is told at a tick
        assert await read("ann", "site/#") == ["site/a/temp"]
        assert await read("ann", "site/secret/temp") == []
        assert await read("ann", columns=["payload"]) == ["", "", ""]
        assert await read("ann", columns=[]) == ["", "", ""]
        assert await read("boss") == sorted(TOPICS)
        with pytest.raises(flight.FlightServerError, match="there is no such user"):
            await read("ghost")

        users = node.node.parts.get(UsersPart).users.group(PasswordUser, "", ID)
        await users.delete("ann")
        (tmp_path / "acl.conf").write_text('{allow, {username, "ghost"}, subscribe, ["site/#"]}.')
        await users.add("ghost", PasswordUser(b"", b""))
        await node.change()
        theirs = ["site/a/temp", "site/a/wind", "site/secret/temp"]
        await asyncio.to_thread(wait_until, lambda: reads("ghost") == theirs)
        with pytest.raises(flight.FlightServerError, match="there is no such user"):
            await read("ann")
