"""`heliograph ctl authz` and `ctl acl`, as a user types them, against a node with clients."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from heliograph.cli.main import main
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from support.live_node import BASE, LiveNode
from support.running import MqttClient

RULES = '{deny, {user, "bob"}, publish, ["a/#"]}.\n\n{allow, all, all, ["a/#"]}.\n'


class World:
    """A node with a file of rules, and the command."""

    def __init__(self, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.acl = directory / "acl.conf"
        self.acl.write_text(RULES)
        sources = f'authorization {{ no_match = deny, sources = [{{ type = file, path = "{self.acl}" }}] }}\n'
        self.live = LiveNode(directory / "node", base=BASE + sources)
        self._capsys = capsys
        self._clients: list[MqttClient] = []

    async def ctl(self, *words: str, code: int = 0) -> str:
        """What a command prints; to stderr if it fails."""
        found = await asyncio.to_thread(main, ["ctl", *words, "--data-dir", str(self.live.data_dir)])
        out, err = self._capsys.readouterr()
        assert found == code, out + err
        return out if code == 0 else err

    async def connect(self, clientid: str, username: str | None = None) -> MqttClient:
        """A client that is let in."""
        port = int(self.live.node.ready_line().rpartition(":")[2])
        client = MqttClient(*await asyncio.open_connection("127.0.0.1", port), p.V5)
        client.send_connect(clientid, username=username)
        assert (await client.take(p.Connack)).code == 0
        self._clients.append(client)
        return client

    async def stop(self) -> None:
        """Stop the node."""
        await self.live.stop()
        for client in self._clients:
            await client.until_closed()


@pytest.fixture
async def world(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> AsyncIterator[World]:
    world = World(tmp_path, capsys)
    await world.live.start()
    yield world
    await world.stop()


def steps(printed: str) -> list[str]:
    """The lines of the table of an explanation, with single blanks."""
    return [" ".join(line.split()) for line in printed.partition("ASKED")[2].splitlines()[1:]]


async def test_explain_says_which_rule_decides_and_what_all_before_it_said(world: World) -> None:
    await world.connect("c1", "alice")
    await world.connect("c2", "bob")
    told = await world.ctl("authz", "explain", "c2", "publish", "a/b", "--qos", "1")
    assert told.splitlines()[:4] == [
        "c2 (user bob, 127.0.0.1, tcp:default, connected)",
        "may NOT publish to a/b at QoS 1",
        f'decided by file ({world.acl}:1): {{deny, {{user, "bob"}}, publish, ["a/#"]}}',
        "a client that is denied keeps its connection (authorization.deny_action = ignore)",
    ]
    rule = f'{{deny, {{user, "bob"}}, publish, ["a/#"]}}; {world.acl}:1'
    assert steps(told) == [
        "superuser no -",
        "client_info nomatch the client carries no ACL",
        f"file deny {rule}",
        "no_match not asked -",
    ]
    told = await world.ctl("authz", "explain", "c1", "subscribe", "$share/g/a/#")
    assert "may subscribe to a/# at QoS 0" in told
    assert f"decided by file ({world.acl}:3)" in told
    told = await world.ctl("authz", "explain", "c1", "publish", "z", "--retain")
    assert "may NOT publish to z at QoS 0 with the retain flag" in told
    assert "decided by authorization.no_match = deny: no source has a rule for it" in told


async def test_explain_says_that_events_of_clients_are_closed(world: World) -> None:
    told = await world.ctl("authz", "explain", "x", "subscribe", "$events/#", "--described")
    assert "may NOT subscribe to $events/#" in told
    assert "decided by events of clients, which no rule allows: no source has a rule for it" in told


async def test_a_client_that_is_not_connected_is_described(world: World) -> None:
    told = await world.ctl("authz", "explain", "x", "publish", "a/b", code=1)
    assert "[not_found] 'x' is not connected" in told
    told = await world.ctl("authz", "explain", "x", "publish", "a/b", "--username", "bob", "--peerhost", "2001:db8::7")
    assert told.startswith("x (user bob, 2001:db8::7, tcp:default, described)\nmay NOT publish")
    found = json.loads(await world.ctl("authz", "explain", "x", "publish", "z", "--superuser", "--json"))
    assert (found["is_allowed"], found["decided_by"]) == (True, "superuser")
    assert [step["said"] for step in found["steps"]] == ["allow", "not asked", "not asked"]


async def test_what_makes_no_sense_is_refused_with_what_is_valid(world: World) -> None:
    cases = {
        ("authz", "explain", "x", "publish", "a/#", "--described"): "'a/#' is no topic name",
        ("authz", "explain", "x", "subscribe", "a/#/b", "--described"): "is no topic filter",
        ("authz", "explain", "x", "publish", "a", "--peerhost", "home"): "'home' is no IP address",
        ("authz", "delete", "mysql"): "there is no source 'mysql'; there are: file",
        ("authz", "order", "file", "mysql"): "the order has to name each of file once",
        ("authz", "move", "file", "top"): "valid are front, rear, before:NAME and after:NAME",
        ("authz", "add", 'type = file, path = "/x"'): "the source 'file' is there already",
        ("authz", "update", 'type = file, path = "/missing"'): "'/missing': No such file",
        ("authz", "add", "type = fil"): "'fil', expected one of file, built_in_database",
        ("acl", "set", "all", "deny foo bar"): "action is 'foo'; publish, subscribe and all are valid",
        ("acl", "set", "clientid", "c", '{"permission": "allow"}'): "action is None",
        ("acl", "show", "username", "nobody"): "username 'nobody' has no rules",
        ("acl", "delete", "all", "--rule", "7"): "the list for all clients has no rules",
    }
    for words, said in cases.items():
        assert said in await world.ctl(*words, code=1), words
    assert "is no rule such as" in await world.ctl("acl", "set", "all", "deny", code=2)
    told = await world.ctl("acl", "set", "all", "deny all peerhost=10.0.0.0/8 a/#", code=2)
    assert "'peerhost' is no field of a rule; qos, retain, ipaddr" in told
    assert "`all` has no name" in await world.ctl("acl", "delete", "all", "x", code=2)


async def test_a_name_that_is_no_placeholder_is_told_when_a_rule_is_set(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["ctl", "acl", "add", "all", "allow all ${user}/${clientid}", "--data-dir", str(world.live.data_dir)]
    assert await asyncio.to_thread(main, line) == 0
    told = capsys.readouterr().err
    assert "${user} is no placeholder in the topic of a rule" in told
    assert "${clientid}" not in told


async def test_rules_are_set_and_asked_when_the_source_is_added(world: World) -> None:
    client = await world.connect("c1", "alice")
    await world.ctl("acl", "set", "clientid", "c1", "allow publish qos=0,1 z/${clientid}", "deny all #")
    assert await client.publish("z/c1", b"x", 1) == rc.NOT_AUTHORIZED
    told = await world.ctl("authz", "add", "type = built_in_database", "--at", "rear")
    assert told.startswith("sources in their order: file, built_in_database")
    assert await client.publish("z/c1", b"x", 1) == 0x10
    assert await client.publish("z/c1", b"x", 2) == rc.NOT_AUTHORIZED
    told = await world.ctl("authz", "explain", "c1", "publish", "z/c1")
    assert "decided by built_in_database (clientid c1, rule 1)" in told
    await world.ctl("acl", "add", "clientid", "c1", "deny publish z/#", "--front")
    assert await client.publish("z/c1", b"x", 1) == rc.NOT_AUTHORIZED
    rows = [" ".join(line.split()) for line in (await world.ctl("acl", "list")).splitlines()]
    assert rows == [
        "KIND NAME RULE PERMISSION ACTION OPTIONS TOPIC",
        "clientid c1 1 deny publish - z/#",
        "clientid c1 2 allow publish qos=0,1 z/${clientid}",
        "clientid c1 3 deny all - #",
    ]
    assert await world.ctl("acl", "delete", "clientid", "c1", "--rule", "1") == "clientid c1 has 2 rules\n"
    assert await client.publish("z/c1", b"x", 1) == 0x10
    assert await world.ctl("acl", "clear") == "all rules are removed\n"


async def test_how_many_rules_one_may_have_changes_while_the_node_runs(world: World) -> None:
    await world.ctl("authz", "add", "type = built_in_database, max_rules = 1", "--at", "rear")
    await world.ctl("acl", "set", "all", "allow all a")
    told = await world.ctl("acl", "add", "all", "deny all b", code=1)
    assert "would have 2 rules; at most 1 are valid" in told
    await world.ctl("authz", "update", "type = built_in_database, max_rules = 2")
    assert await world.ctl("acl", "add", "all", "deny all b") == "all clients have 2 rules\n"


async def test_rules_are_exported_and_imported(world: World, tmp_path: Path) -> None:
    file = tmp_path / "rules.json"
    rule = {"permission": "allow", "action": "all", "topic": "t/#"}
    wanted = [{"clientid": "c", "rules": [rule, rule]}, {"username": "u", "rules": [rule]}, {"rules": [rule]}]
    file.write_text(json.dumps(wanted))
    assert "3 client ids or user names have 4 rules" in await world.ctl("acl", "import", str(file))
    assert json.loads(await world.ctl("acl", "export")) == wanted
    file.write_text(json.dumps([{"clientid": "c", "rules": [{"permission": "allow"}]}]))
    assert "rule 1 of clientid 'c'" in await world.ctl("acl", "import", str(file), code=1)
    assert json.loads(await world.ctl("acl", "export")) == wanted
    too_many = ["allow all t/#"] * 101
    assert "at most 100 are valid" in await world.ctl("acl", "set", "all", *too_many, code=1)


async def test_denials_of_an_acl_file_are_told(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "acl"
    words = ["ctl", "acl", "import", str(file), "--format", "mosquitto", "--data-dir", str(world.live.data_dir)]
    for text, is_told in (("user a\ntopic read #\ntopic deny b\n", True), ("user a\ntopic read #\n", False)):
        file.write_text(text)
        assert await asyncio.to_thread(main, words) == 0
        assert ("authorization.check_deliveries" in capsys.readouterr().err) == is_told


async def test_the_acl_file_of_mosquitto_is_imported(world: World, tmp_path: Path) -> None:
    file = tmp_path / "aclfile"
    file.write_text(
        "topic read news/#\n\nuser alice\ntopic write home/alice\ntopic deny home/alice/safe\n\npattern own/%c\n"
    )
    await world.ctl("acl", "import", str(file), "--format", "mosquitto")
    await world.ctl("authz", "add", "type = built_in_database")
    alice, stranger = await world.connect("c1", "alice"), await world.connect("c2")
    assert await alice.publish("home/alice", b"x", 1) == 0x10
    assert await alice.publish("home/alice/safe", b"x", 1) == rc.NOT_AUTHORIZED
    assert await alice.subscribe("news/#") == rc.NOT_AUTHORIZED
    assert await stranger.subscribe("news/#") == 0
    assert await stranger.publish("own/c2", b"x", 1) == 0x10
    assert await stranger.publish("own/c1", b"x", 1) == rc.NOT_AUTHORIZED
    file.write_text("topic rread news/#\n")
    told = await world.ctl("acl", "import", str(file), "--format", "mosquitto", code=2)
    assert f"{file}: line 1, column 1: found 'rread' before a topic" in told


async def test_a_change_of_sources_ends_subscriptions_and_outlasts_a_restart(world: World) -> None:
    client = await world.connect("c1")
    assert await client.subscribe("a/#") == 0
    assert "file" in await world.ctl("authz", "disable", "file")
    told = await world.ctl("authz", "recheck", "c1")
    assert told in ("these subscriptions ended: a/#\n", "all subscriptions stay\n")
    publisher = await world.connect("d")
    await publisher.publish("a/b", b"x", 1)
    assert await client.payloads() == []
    assert "disabled" in await world.ctl("authz", "sources")
    await world.stop()
    await world.live.start()
    rows = [line.split()[:2] for line in (await world.ctl("authz", "sources")).splitlines()[1:]]
    assert rows == [["file", "disabled"]]


async def test_a_file_of_rules_is_read_again_by_conf_reload(world: World) -> None:
    client = await world.connect("c1")
    assert await client.publish("a/b", b"x", 1) == 0x10
    world.acl.write_text("{deny, all}.\n")
    await world.ctl("conf", "reload")
    assert await client.publish("a/b", b"x", 1) == rc.NOT_AUTHORIZED
    world.acl.write_text("{deny, nobody}.\n")
    assert "line 1, column" in await world.ctl("conf", "reload", code=1)
    assert "allow" not in await world.ctl("authz", "explain", "c1", "publish", "a/b")


async def test_what_is_remembered_can_be_forgotten(world: World) -> None:
    client = await world.connect("c1")
    assert await client.publish("a/b", b"x", 1) == 0x10
    assert "all clients is forgotten, and 0 answers" in await world.ctl("authz", "cache-clean")
    assert await world.ctl("authz", "cache-clean", "c1") == "what was remembered of c1 is forgotten\n"
    assert await client.publish("a/b", b"x", 1) == 0x10
    assert "file works 2 2" in " ".join((await world.ctl("authz", "sources")).split())
    assert "deny" in await world.ctl("authz", "status")


def test_mistakes_in_a_file_of_rules_are_found_without_a_node(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    acl, conf = tmp_path / "acl.conf", tmp_path / "node.conf"
    acl.write_text("{allow, all}.\n{allow, nobody, publish, all}.\n{deny, all}\n")
    conf.write_text(f'authorization.sources = [{{ type = file, path = "{acl}" }}]\n')
    assert main(["conf", "check", str(conf), "--data-dir", str(tmp_path / "data")]) != 0
    told = capsys.readouterr().err
    assert f"authorization.sources.1: {acl}: line 2, column 9: found nobody" in told
    assert f"{acl}: line 4, column 1: the final dot is missing" in told
