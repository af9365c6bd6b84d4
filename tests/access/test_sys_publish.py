"""Who may publish below `$SYS/` and `$events/`."""

from heliograph.mqtt import packets as p
from support.cases import cases
from support.kernel import Peer
from support.packets import properties
from support.services import Node

QUIET = """
sys_topics {
  sys_msg_interval = disabled, sys_heartbeat_interval = disabled
  sys_event_messages { client_connected = false, client_disconnected = false }
}
"""
ALARM = "$SYS/brokers/heliograph/alarms/activate"
EVENT = "$events/client_connected"


def republish(name: str, topic: str) -> str:
    sql = f'SELECT payload.to AS to FROM "{name}" '
    args = f'{{ topic = "{topic}", payload = "said" }}'
    return f'{name} {{ sql = """{sql}""", actions = [{{ function = republish, args {args} }}] }}\n'


def watching(node: Node) -> Peer:
    peer = node.connect("watcher")
    peer.subscribe("$SYS/#")
    peer.subscribe("$events/#")
    return peer


@cases(("version", "answered"), [(p.V5, "PUBACK #5 0x87"), (p.V3_1_1, "PUBACK #5")])
@cases("topic", [ALARM, "$SYS/", f"$delayed/0/{ALARM}", f"$delayed/0/$delayed/0/{ALARM}", EVENT, f"$delayed/0/{EVENT}"])
def test_clients_publish_nothing_below_sys(version: int, answered: str, topic: str) -> None:
    node = Node(QUIET)
    watcher = watching(node)
    peer = node.peer(version)
    peer.connect("forger")
    peer.skip()
    peer.publish(topic, b"forged", 1, 5, retain=True)
    peer.publish(topic, b"forged", 0)
    assert peer.heard() == [answered]
    node.advance(2)
    assert watcher.heard() == []
    assert node.statistics()["packets.publish.auth_error"] == 2
    assert node.statistics()["retained.count"] == 0


def test_nor_does_a_will() -> None:
    node = Node(QUIET)
    watcher = watching(node)
    node.connect("forger", will=p.Will(ALARM, b"forged", 1, True, properties())).drop()
    node.advance(1)
    assert watcher.heard() == []
    assert node.statistics()["retained.count"] == 0


def test_nor_what_a_client_makes_rewriting_do() -> None:
    rules = 'rewrite = [{ action = publish, source_topic = "up/#", re = "^up/(.+)$", dest_topic = "$SYS/$1" }]'
    node = Node(QUIET + rules)
    watcher = watching(node)
    peer = node.connect("forger")
    peer.publish("up/brokers/x", b"forged", 1, 5)
    assert peer.heard() == ["PUBACK #5 0x87"]
    assert watcher.heard() == []


@cases("topic", ["${to}", ALARM, "$SYS/rules/${to}", "${$}SYS/x", f"$delayed/0/{ALARM}", EVENT, "up/x"])
def test_nor_a_rule(topic: str) -> None:
    rewriting = 'rewrite = [{ action = publish, source_topic = "up/#", re = "^up/(.+)$", dest_topic = "$SYS/$1" }]\n'
    node = Node(QUIET + rewriting + "rule_engine.rules {" + republish("own", topic) + "}")
    watcher = watching(node)
    peer = node.connect("c")
    topics = (ALARM, f"$delayed/0/{ALARM}", EVENT)
    for to in topics:
        peer.publish("own", b'{"to": "%s"}' % to.encode())
    node.advance(1)
    assert watcher.heard() == []
    statistics = node.statistics()
    if topic == "up/x":  # the rule has published it
        assert statistics["packets.publish.auth_error"] == len(topics)
    else:
        assert statistics["rules.own.actions.failed"] == len(topics)


def test_a_rule_may_where_that_is_allowed_but_no_message_says_so() -> None:
    rule = "rule_engine.rules {" + republish("blind", "${to}") + republish("meant", "$SYS/rules/${to}") + "}"
    node = Node(QUIET + "sys_topics.allow_publish = true\n" + rule)
    watcher = watching(node)
    peer = node.connect("c")
    peer.publish("blind", b'{"to": "%s"}' % ALARM.encode())
    peer.publish("meant", b'{"to": "t"}')
    node.advance(1)
    assert watcher.heard() == ["PUBLISH $SYS/rules/t 'said' q0"]
    assert node.statistics()["rules.blind.actions.failed"] == 1


def test_what_the_broker_says_itself_goes_on() -> None:
    node = Node()
    watcher = watching(node)
    node.advance(1)
    assert any("/uptime" in line for line in watcher.heard())


def test_an_operator_may_allow_it() -> None:
    node = Node(QUIET + "sys_topics.allow_publish = true")
    watcher = watching(node)
    node.connect("c").publish(ALARM, b"x")
    assert watcher.heard() == [f"PUBLISH {ALARM} 'x' q0"]
