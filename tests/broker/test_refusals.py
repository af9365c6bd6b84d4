"""What a publisher is told when a callback refuses its message with a reason code."""

from heliograph.broker.hooks import STOP, Refusal
from heliograph.broker.message import Message
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from support.cases import cases
from support.kernel import Kernel
from support.packets import properties


def refusing(reason: str, code: int, disconnects: bool = False) -> Kernel:
    kernel = Kernel()
    refusal = Refusal(reason, code, disconnects)
    kernel.broker.hooks.message_publish.add(lambda message: (STOP, refusal))
    return kernel


@cases(
    ("version", "qos", "code", "answers"),
    [
        (p.V5, 0, rc.QUOTA_EXCEEDED, []),
        (p.V5, 1, rc.QUOTA_EXCEEDED, ["PUBACK #9 0x97"]),
        (p.V5, 2, rc.PAYLOAD_FORMAT_INVALID, ["PUBREC #9 0x99"]),
        (p.V5, 1, rc.BANNED, ["PUBACK #9 0x80"]),  # which no PUBACK says
        (p.V5, 2, rc.SUCCESS, ["PUBREC #9"]),
        (p.V3_1_1, 1, rc.QUOTA_EXCEEDED, ["PUBACK #9"]),
        (p.V3_1, 2, rc.QUOTA_EXCEEDED, ["PUBREC #9"]),
    ],
)
def test_the_acknowledgement(version: int, qos: int, code: int, answers: list[str]) -> None:
    peer = refusing("full", code).connect(version=version)
    peer.publish("t", b"x", qos, 9 if qos else 0)
    assert peer.heard() == answers
    assert not peer.closed()


@cases(("version", "answers"), [(p.V5, ["DISCONNECT 0x97"]), (p.V3_1_1, [])])
def test_the_connection_ends(version: int, answers: list[str]) -> None:
    kernel = refusing("full", rc.QUOTA_EXCEEDED, disconnects=True)
    peer = kernel.connect(version=version)
    peer.publish("t", b"x", 1, 9)
    assert peer.heard() == answers
    assert peer.closed()
    assert kernel.reports == ["message to 't' is refused: full"]


@cases(("reason", "told"), [("full", ["full"]), ("", [])])
def test_who_asks_is_told_the_reason(reason: str, told: list[str]) -> None:
    kernel = refusing(reason, rc.QUOTA_EXCEEDED)
    heard: list[str] = []
    kernel.broker.hooks.message_dropped.add(lambda message, why, _: heard.append(why))
    kernel.connect().publish("t")
    assert heard == told


def test_a_will_is_dropped_and_its_client_stays_away() -> None:
    kernel = refusing("full", rc.QUOTA_EXCEEDED, disconnects=True)
    watcher = kernel.connect("watcher")
    watcher.subscribe("#")
    kernel.connect("leaves", will=p.Will("t", b"x", 1, True, properties())).drop()
    assert watcher.heard() == []
    assert len(kernel.retainer) == 0
    assert kernel.hook_failures == []


def test_topics_are_asked_about_again_when_a_callback_says_so() -> None:
    kernel = Kernel()
    wanted: set[str] = set()
    seen: list[Message] = []
    kernel.broker.hooks.message_publish.add(seen.append, wants=lambda topic: topic in wanted)
    peer = kernel.connect()
    peer.publish("t")
    wanted.add("t")
    peer.publish("t")
    assert seen == []
    kernel.broker.hooks.message_publish.renew()
    peer.publish("t")
    assert [message.topic for message in seen] == ["t"]
