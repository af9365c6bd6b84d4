"""Client attributes: made when a client connects, and seen by rules, transformations, mountpoints and subscriptions."""

import asyncio
import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiomqtt
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from heliograph.broker import hooks
from heliograph.broker.client import ClientInfo
from heliograph.channel.peer import Peer as Address
from heliograph.cli.main import main
from heliograph.config.loading import load_config
from heliograph.node import Node as RealNode
from heliograph.rules.client_attrs import VARIABLES, client_attribute_faults
from heliograph.settings.errors import ConfigError
from support.cases import cases
from support.kernel import Peer
from support.options import CHANNEL, LISTENER
from support.services import Node

WAIT_S = 30


def attributes(*entries: tuple[str, str]) -> str:
    """The setting with an expression and a name each."""
    listed = ", ".join(f'{{ expression = """{expression}""", set_as_attr = {name} }}' for expression, name in entries)
    return f"mqtt.client_attrs_init = [{listed}]\n"


def told(node: Node) -> list[ClientInfo]:
    """The clients that connect from now on."""
    clients: list[ClientInfo] = []
    node.broker.hooks.point(hooks.CLIENT_CONNECTED).add(lambda client, *_: clients.append(client))
    return clients


def attributes_of(node: Node, address: Address | None = None, **connecting: Any) -> dict[str, str]:
    """What a client that connects gets."""
    clients = told(node)
    connecting.setdefault("clientid", "dev-7")
    node.peer(address=address).connect(**connecting)
    return dict(clients[-1].client_attrs)


@cases(
    ("expression", "value"),
    [
        ("nth(1, tokens(clientid, '-'))", "dev"),
        ("upper(username)", "U1"),
        ("concat([user_property.site, '/', zone, '/', listener])", "north/default/tcp:default"),
        ("peerhost", "192.0.2.1"),
        ("concat([cn, ' ', dn])", "device CN=device,OU=hall"),
        ("regex_replace(dn, '.*OU=', '')", "hall"),
        ("concat([proto_name, proto_ver, protocol])", "MQTT5mqtt"),
        ("iif(clean_start, 'new', 'old')", "new"),
        ("coalesce(user_property.nosuch, 'none')", "none"),
        ("keepalive", "60"),
        ("user_property.nosuch", None),  # fails
        ("nth(9, tokens(clientid, '-'))", None),  # gives nothing
        ("user_property", None),  # is no text
        ("hexstr2bin('ff')", None),
        ("hexstr2bin('00')", None),
        ("pad('x', 70000)", None),
    ],
)
def test_what_expressions_read_and_set(expression: str, value: str | None) -> None:
    node = Node(attributes((expression, "a")))
    address = Address("192.0.2.1:5", "192.0.2.2:1883", common_name="device", subject="CN=device,OU=hall")
    found = attributes_of(
        node, address, clientid="dev-7", username="u1", keepalive_s=60, user_property=[("site", "x"), ("site", "north")]
    )
    assert found == ({} if value is None else {"a": value})


def test_what_a_client_does_not_have() -> None:
    node = Node(attributes(("concat(['cn ', cn])", "cn"), ("concat(['user ', username])", "user"), ("dn", "dn")))
    assert attributes_of(node) == {"user": "user "}


def test_later_expressions_read_earlier_attributes_and_may_replace_them() -> None:
    node = Node(
        attributes(
            ("nth(1, tokens(clientid, '-'))", "group"),
            ("concat([client_attrs.group, '!'])", "loud"),
            ("user_property.group", "group"),
            ("client_attrs.nosuch", "x"),
        )
    )
    assert attributes_of(node) == {"group": "dev", "loud": "dev!"}
    assert attributes_of(node, user_property=[("group", "own")]) == {"group": "own", "loud": "dev!"}


def test_the_name_is_the_one_that_counts_in_the_end() -> None:
    options = replace(CHANNEL, use_username_as_clientid=True)
    node = Node(attributes(("clientid", "id")), options)
    assert attributes_of(node, clientid="said", username="counts") == {"id": "counts"}
    assert attributes_of(node, clientid="") == {"id": "assigned-1"}


def test_whoever_decides_about_a_client_knows_them() -> None:
    node = Node(attributes(("nth(1, tokens(clientid, '-'))", "group")))
    groups: list[object] = []
    for point in (hooks.CLIENT_CONNECT, hooks.CLIENT_AUTHENTICATE, hooks.CLIENT_AUTHORIZE, hooks.CLIENT_DISCONNECTED):
        node.broker.hooks.point(point).add(lambda client, *_: groups.append(client.client_attrs["group"]))
    peer = node.connect("dev-7")
    peer.publish("t", b"x")
    peer.disconnect()
    assert groups == ["dev"] * 4


def test_a_client_without_the_setting_has_none_and_nobody_can_change_it() -> None:
    node = Node()
    clients = told(node)
    node.connect("c")
    assert dict(clients[0].client_attrs) == {}
    with pytest.raises(TypeError):
        clients[0].client_attrs["x"] = "y"  # type: ignore[index]  # that is what is tested


def test_a_flood_of_failures_is_some_lines_at_level_debug(caplog: pytest.LogCaptureFixture) -> None:
    node = Node(attributes(("user_property.site", "site")))
    with caplog.at_level(logging.DEBUG):
        for number in range(100):
            node.connect(f"c{number}\nERROR forged").disconnect()
    lines = [record for record in caplog.records if "attribute" in record.getMessage()]
    assert 1 <= len(lines) <= 10
    assert {record.levelno for record in lines} == {logging.DEBUG}
    first = lines[0].getMessage()
    assert first == (r"client 'c0\nERROR forged' gets no attribute site: the variable user_property.site has no value")


# --- where they are seen


def rows_of(sql: str, act: Any) -> list[Any]:
    """The rows that a rule gives while `act` plays with a node."""
    action = 'actions = [{ function = republish, args { topic = rows, payload = "${.}" } }]'
    rule = f'rule_engine.rules.r {{ sql = """{sql} """, {action} }}\n'
    node = Node(attributes(("nth(1, tokens(clientid, '-'))", "group")) + rule)
    rows: list[Any] = []
    node.broker.hooks.message_publish.add(
        lambda message, *_: rows.append(json.loads(message.payload)) if message.topic == "rows" else None
    )
    node.broker.hooks.client_authorize.add(lambda *_: None)
    act(node.connect("dev-7"))
    node.run()
    return rows


def publish(peer: Peer) -> None:
    peer.publish("t", b"{}")


def everything(peer: Peer) -> None:
    peer.subscribe("t")
    peer.unsubscribe("t")
    peer.disconnect()


def test_rules_see_them_of_messages() -> None:
    rows = rows_of('SELECT client_attrs, client_attrs.group AS g, headers.client_attrs.group AS h FROM "t"', publish)
    assert rows == [{"client_attrs": {"group": "dev"}, "g": "dev", "h": "dev"}]


def test_rules_see_them_of_events() -> None:
    rows = rows_of('SELECT event, client_attrs.group AS g FROM "$events/client/#", "$events/session/#"', everything)
    assert {row["event"]: row["g"] for row in rows if row["event"] != "client.connack"} == {
        "client.connected": "dev",
        "client.disconnected": "dev",
        "session.subscribed": "dev",
        "session.unsubscribed": "dev",
    }
    rows = rows_of('SELECT client_attrs.group AS g FROM "$events/auth/check_authn_complete"', everything)
    assert rows == [{"g": "dev"}]
    rows = rows_of('SELECT client_attrs.group AS g FROM "$events/auth/check_authz_complete"', publish)
    assert rows == [{"g": "dev"}]


def test_transformations_see_them() -> None:
    operation = """{ key = topic, value = "concat([coalesce(client_attrs.group, 'nobody'), '/', topic])" }"""
    transformation = f'{{ name = x, topics = "t", operations = [{operation}] }}'
    node = Node(
        attributes(("user_property.group", "group")) + f"message_transformation.transformations = [{transformation}]"
    )
    watcher = node.connect("watcher")
    watcher.subscribe("#")
    node.connect("a", user_property=[("group", "hall")]).publish("t", b"1")
    node.connect("b").publish("t", b"2")
    assert watcher.heard() == ["PUBLISH hall/t '1' q0", "PUBLISH nobody/t '2' q0"]


def test_mountpoints_are_made_of_them() -> None:
    node = Node(
        attributes(("user_property.tenant", "tenant")),
        replace(CHANNEL, listener=replace(LISTENER, mountpoint="of/${client_attrs.tenant}/")),
    )
    clients = told(node)
    node.connect("a", user_property=[("tenant", "x${clientid}")])
    assert clients[0].mountpoint == "of/x${clientid}/", "what a client says is not looked through for placeholders"
    for tenant in ("", "a/b", "#", "+", "$SYS"):
        peer = node.peer()
        peer.connect("b", user_property=[("tenant", tenant)])
        assert peer.heard()[0].startswith("CONNACK 0x85")
    assert "'a/b' may not stand for ${client_attrs.tenant} in the mountpoint" in node.reports[1]


def test_automatic_subscriptions_are_made_of_them() -> None:
    settings = 'auto_subscribe.topics = [{ topic = "group/${client_attrs.group}/#" }]'
    node = Node(attributes(("user_property.group", "group")) + settings)
    member = node.connect("a", user_property=[("group", "hall")])
    stranger = node.connect("b")
    nosy = node.connect("c", user_property=[("group", "+")])
    node.connect("sender").publish("group/hall/x", b"x")
    assert member.heard() == ["PUBLISH group/hall/x 'x' q0"]
    assert stranger.heard() == nosy.heard() == []


# --- the configuration


@cases(
    ("text", "problem"),
    [
        ("mqtt.client_attrs_init = [\n{ set_as_attr = a, expression = @nth(1@ }]", ":2: mqtt.client_attrs_init.1.expr"),
        (
            "mqtt.client_attrs_init = [{ set_as_attr = a, expression = clientid },\n"
            '{ set_as_attr = b, expression = "uper(clientid)" }]',
            ":2: mqtt.client_attrs_init.2.expression: line 1, column 1: there is no function uper",
        ),
        (
            "mqtt.client_attrs_init = [{ set_as_attr = a, expression = client_id }]",
            f"there is no variable client_id; there are {', '.join(VARIABLES)}",
        ),
        (
            'zones.z.mqtt.client_attrs_init = [{ set_as_attr = a, expression = "coalesce(cn, nosuch.x)" }]',
            "zones.z.mqtt.client_attrs_init.1.expression: there is no variable nosuch",
        ),
        ("mqtt.client_attrs_init = [{ set_as_attr = a.b, expression = clientid }]", "a name of letters, digits, _ and"),
        ("mqtt.client_attrs_init = [{ set_as_attr = a }]", "an attribute needs expression too, as in {"),
        ("mqtt.client_attrs_init = [{ expression = clientid }]", "an attribute needs set_as_attr too, as in {"),
        ("mqtt.client_attrs_init = [{}]", "mqtt.client_attrs_init.1: the attribute is empty; it looks like {"),
    ],
)
def test_mistakes_are_told_with_their_place(
    text: str, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "node.conf"
    file.write_text(text.replace("@", '"'))
    with pytest.raises(ConfigError) as caught:
        load_config(file, checks=(client_attribute_faults,))
    assert problem in str(caught.value)
    assert main(["conf", "check", str(file)]) == 1
    assert problem in capsys.readouterr().err


# --- a node with zones


@pytest.mark.service
def test_a_running_node_makes_them_by_zone(tmp_path: Path) -> None:
    file = tmp_path / "node.conf"
    file.write_text(
        f"""
        node.data_dir = "{tmp_path / "data"}"
        listeners.tcp.default.bind = "127.0.0.1:0"
        listeners.tcp.other {{ bind = "127.0.0.1:0", zone = factory, mountpoint = "${{client_attrs.line}}/" }}
        {attributes(("nth(1, tokens(clientid, '-'))", "group"))}
        zones.factory.mqtt.client_attrs_init = [
          {{ expression = "concat([zone, '-', user_property.line])", set_as_attr = line }}
        ]
        zones.plain {{}}
        rule_engine.rules.r {{
          sql = "SELECT client_attrs FROM '#' WHERE topic <> 'rows'"
          actions = [{{ function = republish, args {{ topic = rows, payload = "${{client_attrs}}" }} }}]
        }}
        durable_storage {{ flight.enable = false, messages.topics = [] }}
        """
    )
    node = RealNode(load_config(file, checks=(client_attribute_faults,)))
    properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]  # the library has no types
    properties.UserProperty = [("line", "7")]

    async def talk(ports: list[int]) -> list[tuple[str, Any]]:
        async with (
            aiomqtt.Client("127.0.0.1", ports[0], identifier="dev-1", protocol=aiomqtt.ProtocolVersion.V5) as default,
            aiomqtt.Client(
                "127.0.0.1", ports[1], identifier="f", protocol=aiomqtt.ProtocolVersion.V5, properties=properties
            ) as other,
        ):
            await default.subscribe("#")
            await default.publish("a", b"", qos=1)
            await other.publish("b", b"", qos=1)
            seen: list[tuple[str, Any]] = []
            async for message in default.messages:
                seen.append((str(message.topic), message.payload))
                if len(seen) == 4:
                    return seen
        raise AssertionError("the node left")

    async def serve() -> list[tuple[str, Any]]:
        await node.start()
        try:
            ports = [int(place.rpartition(":")[2]) for place in node.ready_line().split(", ")]
            return await asyncio.wait_for(talk(ports), WAIT_S)
        finally:
            await node.stop()

    seen = asyncio.run(serve())
    assert sorted(seen) == [
        ("a", b""),
        ("factory-7/b", b""),
        ("rows", b'{"group":"dev"}'),
        ("rows", b'{"line":"factory-7"}'),
    ]
    assert node.statistics()["client_attrs.made"] == 2
