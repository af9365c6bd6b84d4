"""QoS 2 messages that rewriting or transformation changed, repeated after a crash that took their identifiers along."""

import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from heliograph.broker import hooks
from heliograph.broker.hooks import OK
from heliograph.broker.message import Message, make_message
from heliograph.config.loading import load_config
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from support.cases import cases
from support.durable import DurableKernel
from support.kernel import Peer
from support.process import NodeProcess
from support.services import Surroundings
from support.wire import wire

REWRITE = r'rewrite = [{ action = publish, source_topic = "t/#", re = "^t/(.+)$", dest_topic = "of/${clientid}/$1" }]'
TOPIC = """{ key = topic, value = "concat([clientid, '/', topic])" }"""
FIELD = '{ key = payload.by, value = "clientid" }'
ID = '{ key = "user_property.id", value = "id" }'
RECEIVED_AT = '{ key = payload.at, value = "timestamp" }'
JSON = "payload_decoder.type = json, payload_encoder.type = json"


def transforming(*operations: str, failure_action: str = "drop") -> str:
    """The configuration of one transformation of all topics below `t`, and below `of`, which `REWRITE` makes of it."""
    settings = f'name = changes, topics = ["t/#", "of/#"], failure_action = {failure_action}, {JSON}'
    return f"message_transformation.transformations = [{{ {settings}, operations = [{', '.join(operations)}] }}]"


def serve(kernel: DurableKernel, settings: str) -> Callable[[], dict[str, float]]:
    """Have the services and message policies of a node with these settings around a kernel; gives their statistics."""
    file = kernel.path / "node.conf"
    file.write_text(settings, encoding="utf-8")
    config = load_config(file)
    return Surroundings(kernel, config).parts.statistics


def coming(kernel: DurableKernel) -> Peer:
    """The publisher, with its durable session."""
    pub = kernel.come("pub")
    pub.skip()
    return pub


def killed_behind_the_messages(path: Path, settings: str, *payloads: bytes, retain: bool = False) -> DurableKernel:
    """A node whose messages were stored a moment before it was killed, and none of their identifiers."""
    kernel = DurableKernel(path)
    serve(kernel, settings)
    pub = coming(kernel)
    kernel.automatic = False
    for number, payload in enumerate(payloads, 1):
        pub.publish("t/1", payload, 2, number, retain=retain)
        kernel.now_us += 1_000
        kernel.broker.begin_turn(kernel.now_us)
    while kernel.sink.messages:
        kernel.commit()
    return kernel.crash()


def heard_of_all(kernel: DurableKernel) -> Peer:
    """Somebody who gets every message."""
    sub = kernel.connect("sub")
    sub.subscribe("#", 0)
    return sub


@cases(
    "settings",
    [
        REWRITE,
        transforming(TOPIC),
        transforming(FIELD),
        transforming(TOPIC, ID),
        transforming(RECEIVED_AT),
        f"{REWRITE}\n{transforming(FIELD)}",
        transforming("{ key = payload, value = \"'same'\" }"),
        transforming('{ key = qos, value = "payload.none" }', failure_action="ignore"),
    ],
)
def test_a_message_that_was_changed_is_known_again(tmp_path: Path, settings: str) -> None:
    payloads = [b'{"n":%d}' % number for number in range(1, 4)]
    kernel = killed_behind_the_messages(tmp_path, settings, *payloads)
    serve(kernel, settings)
    sub = heard_of_all(kernel)
    pub = coming(kernel)
    for number, payload in enumerate(payloads, 1):
        pub.publish("t/1", payload, 2, number, dup=True)
    assert pub.heard() == ["PUBREC #1", "PUBREC #2", "PUBREC #3"]
    assert sub.heard() == []
    pub.publish("t/1", payloads[0], 2, 4, dup=True)  # each was stored once
    assert len(sub.heard()) == 1


def test_in_any_order(tmp_path: Path) -> None:
    settings = transforming(ID)
    kernel = killed_behind_the_messages(tmp_path, settings, b'{"n":1}', b'{"n":2}')
    serve(kernel, settings)
    sub = heard_of_all(kernel)
    pub = coming(kernel)
    pub.publish("t/1", b'{"n":2}', 2, 2, dup=True)
    pub.publish("t/1", b'{"n":1}', 2, 1, dup=True)
    assert sub.heard() == []


def test_a_message_that_looks_like_what_another_was_stored_as_is_published(tmp_path: Path) -> None:
    settings = transforming("""{ key = payload, value = "iif(str_eq(payload, 'a'), 'b', 'c')" }""")
    settings = settings.replace(JSON, "payload_decoder.type = none")
    kernel = killed_behind_the_messages(tmp_path, settings, b"a")  # it is stored as b, and what b becomes is not
    serve(kernel, settings)
    sub = heard_of_all(kernel)
    pub = coming(kernel)
    pub.publish("t/1", b"b", 2, 2, dup=True)
    pub.publish("t/1", b"a", 2, 1, dup=True)
    assert sub.heard() == ["PUBLISH t/1 'c' q0"]


def test_one_that_is_refused_now_is_not_known(tmp_path: Path) -> None:
    kernel = killed_behind_the_messages(tmp_path, transforming(FIELD), b'{"n":1}')
    serve(kernel, transforming('{ key = qos, value = "payload.none" }'))
    pub = coming(kernel)
    pub.publish("t/1", b'{"n":1}', 2, 1, dup=True)
    assert pub.heard() == [f"PUBREC #1 0x{rc.IMPLEMENTATION_SPECIFIC_ERROR:02x}"]


def test_nobody_is_told_of_what_a_repetition_is_compared_with(tmp_path: Path) -> None:
    settings = f"{REWRITE}\n{transforming(FIELD, failure_action='ignore')}"
    kernel = killed_behind_the_messages(tmp_path, settings, b'{"n":1}', b"no JSON")
    statistics = serve(kernel, settings)
    pub = coming(kernel)
    told: list[object] = []
    kernel.broker.hooks.point(hooks.MESSAGE_TRANSFORMATION_FAILED).add(lambda *args: told.append(args))
    kernel.broker.hooks.point(hooks.MESSAGE_PUBLISH).add(told.append, -100)
    before = statistics()
    pub.publish("t/1", b'{"n":1}', 2, 1, dup=True)
    pub.publish("t/1", b"no JSON", 2, 2, dup=True)
    assert pub.heard() == ["PUBREC #1", "PUBREC #2"]
    after = statistics()
    assert told == []
    for name in ("rewrite.rewritten", "message_transformation.changes.matched", "messages.transformation_failed"):
        assert after[name] == before[name]


@cases("is_known", [True, False])
@cases(
    ("settings", "retain", "retained"),
    [
        (REWRITE, True, ["PUBLISH of/pub/1 '{\"n\":1}' q0 retain"]),
        (transforming(TOPIC, FIELD), True, ['PUBLISH pub/t/1 \'{"n":1,"by":"pub"}\' q0 retain']),
        (transforming('{ key = retain, value = "true" }'), False, ["PUBLISH t/1 '{\"n\":1}' q0 retain"]),
        (transforming('{ key = retain, value = "false" }'), True, []),
    ],
)
def test_what_is_retained_again_is_what_was_stored(
    tmp_path: Path, settings: str, retain: bool, retained: list[str], is_known: bool
) -> None:
    kernel = DurableKernel(tmp_path)
    serve(kernel, settings)
    pub = coming(kernel)
    kernel.automatic = is_known
    pub.publish("t/1", b'{"n":1}', 2, 1, retain=retain)
    while kernel.sink.messages:
        kernel.commit()
    kernel = kernel.crash()  # and the memory of what was retained is gone
    serve(kernel, settings)
    pub = coming(kernel)
    pub.publish("t/1", b'{"n":1}', 2, 1, retain=retain, dup=True)
    assert pub.heard() == ["PUBREC #1"]
    sub = kernel.connect("sub")
    sub.send_subscribe(p.SubscribeEntry("#", 0, False, False, 0))
    assert sub.heard()[1:] == retained


def test_callbacks_of_others_that_say_what_they_make_of_a_message(tmp_path: Path) -> None:
    def louder(message: Message) -> Message:
        text, name = message.payload.upper(), message.username
        return make_message(
            message.id_high, message.id_low, message.topic, text, message.qos, False, b"", message.clientid, name
        )

    def hook_in(kernel: DurableKernel) -> None:
        point = kernel.broker.hooks.message_publish
        point.add(lambda message: (OK, louder(message)), 10, None, louder)

    kernel = DurableKernel(tmp_path)
    hook_in(kernel)
    pub = coming(kernel)
    kernel.automatic = False
    pub.publish("t", b"quiet", 2, 1)
    kernel.commit()
    kernel = kernel.crash()
    hook_in(kernel)
    sub = heard_of_all(kernel)
    pub = coming(kernel)
    pub.publish("t", b"quiet", 2, 1, dup=True)
    assert sub.heard() == []
    assert kernel.hook_failures == []


def test_one_that_fails_is_reported_and_passed_over(tmp_path: Path) -> None:
    def fails(message: Message) -> Message:
        raise RuntimeError("a fault of ours")

    kernel = killed_behind_the_messages(tmp_path, "", b"x")
    kernel.broker.hooks.message_publish.add(lambda message: OK, 10, None, fails)
    pub = coming(kernel)
    pub.publish("t/1", b"x", 2, 1, dup=True)
    assert pub.heard() == ["PUBREC #1"]
    assert {name for name, _ in kernel.hook_failures} == {hooks.MESSAGE_PUBLISH}


class Talk:
    """A client of MQTT 3.1.1 with a session that lasts, over TCP, byte by byte."""

    def __init__(self, node: NodeProcess, clientid: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", node.port), 20)
        self._file = self._socket.makefile("rb")
        self.tell(f'10 # "MQTT" 04 00 003c "{clientid}"')
        self.connack = self.hear()

    def tell(self, notation: str) -> None:
        self._socket.sendall(wire(notation))

    def hear(self) -> bytes:
        """The next packet, which is short."""
        head = self._file.read(2)
        return head + self._file.read(head[1])

    def close(self) -> None:
        self._file.close()
        self._socket.close()


@pytest.mark.service
@pytest.mark.slow
def test_a_node_that_was_killed_between_the_two_commits(tmp_path: Path) -> None:
    settings = f"{REWRITE}\n{transforming(FIELD, RECEIVED_AT)}"
    with NodeProcess(tmp_path, settings) as node:
        Talk(node, "pub").close()
        sub = Talk(node, "sub")
        sub.tell('82 # 0001 "#" 01')
        sub.hear()
        node.kill()
        sub.close()
        sessions = node.data_dir / "state" / "sessions"
        shutil.copytree(sessions, tmp_path / "before")
        node.start()
        pub = Talk(node, "pub")
        pub.tell("34 # \"t/1\" 0007 '{}'")
        assert pub.hear() == wire("50 02 0007")
        node.kill()
        pub.close()
        shutil.rmtree(sessions)  # what the disk would have if the power had failed a moment earlier
        shutil.move(tmp_path / "before", sessions)
        node.start()
        sub, pub = Talk(node, "sub"), Talk(node, "pub")
        assert (sub.connack, pub.connack) == (wire("20 02 01 00"), wire("20 02 01 00"))
        assert b"of/pub/1" in sub.hear()  # as it was stored
        pub.tell("3c # \"t/1\" 0007 '{}'")
        pub.tell("3c # \"t/2\" 0008 '{}'")
        assert [pub.hear(), pub.hear()] == [wire("50 02 0007"), wire("50 02 0008")]
        assert b"of/pub/2" in sub.hear()
        sub.close()
        pub.close()
        assert node.stop() == 0
