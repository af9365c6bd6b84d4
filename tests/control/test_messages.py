"""Messages that are published on an operator's behalf: what becomes of them, and when that is answered."""

import asyncio
from pathlib import Path

from heliograph.broker import hooks
from heliograph.broker.hooks import Refusal
from heliograph.control import messages
from heliograph.control.proto_v1.messages import NewMessage, NewMessages, PublishedMessage, PublishProperties
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from support.asking import CALL, Asker
from support.cases import cases
from support.durable import DurableKernel, leave
from support.kernel import Kernel


def publishing(kernel: Kernel) -> messages.MessagesAnswers:
    return messages.MessagesAnswers(kernel.context, lambda: (1000, 4))


def asker_of(kernel: Kernel) -> Asker:
    return Asker(messages.methods(publishing(kernel)), kernel.run)


def published(kernel: Kernel, topic: str, payload: bytes = b"x") -> PublishedMessage:
    answer = asker_of(kernel).ask("messages.publish", NewMessage(topic, payload))
    assert isinstance(answer, PublishedMessage)
    return answer


def test_a_message_reaches_subscribers_with_its_properties_from_http_api() -> None:
    kernel = Kernel()
    peer = kernel.connect("sub")
    peer.subscribe("t", 1)
    seen: list[tuple[str, str | None]] = []
    kernel.broker.hooks.point(hooks.MESSAGE_PUBLISH).add(
        lambda message: seen.append((message.clientid, message.username))
    )
    properties = PublishProperties(1, 60, "r", b"c", "text", [("k", "v")])
    done = asker_of(kernel).ask("messages.publish", NewMessage("t", b"x", 1, properties=properties))
    kernel.run()
    got = peer.take(p.Publish)
    assert (got.payload, got.qos) == (b"x", 1)
    assert (done.receivers, done.code, len(done.id), seen) == (1, 0, 32, [("http_api", None)])


@cases(
    ("topic", "payload", "code"),
    [
        ("a/#", b"", rc.TOPIC_NAME_INVALID),
        ("", b"", rc.TOPIC_NAME_INVALID),
        ("a/b/c/d/e", b"", rc.TOPIC_NAME_INVALID),
        ("t", b"x" * 1000, rc.PACKET_TOO_LARGE),
        ("none", b"", rc.NO_MATCHING_SUBSCRIBERS),
    ],
)
def test_what_cannot_be_published_and_what_nothing_gets_is_told(topic: str, payload: bytes, code: int) -> None:
    done = published(Kernel(), topic, payload)
    assert done.code == code
    assert done.message.startswith(rc.name_of(code))


def test_a_message_that_a_callback_refuses_is_told_with_its_code() -> None:
    kernel = Kernel()
    kernel.connect("sub").subscribe("t")
    refusal = Refusal("validation_failed", rc.PAYLOAD_FORMAT_INVALID, False)
    kernel.broker.hooks.point(hooks.MESSAGE_PUBLISH).add(lambda message: (hooks.STOP, refusal))
    assert published(kernel, "t").code == rc.PAYLOAD_FORMAT_INVALID


def test_the_answer_waits_for_the_commit_and_tells_its_refusal() -> None:
    kernel = Kernel(stored=["t"])
    kernel.connect("sub").subscribe("t")

    async def answers() -> list[int]:
        handler = next(one for one in messages.methods(publishing(kernel))).handler
        found = []
        for code in (0, rc.QUOTA_EXCEEDED):
            answer = handler(NewMessage("t", b"x", 1), CALL)
            assert asyncio.iscoroutine(answer)
            task = asyncio.ensure_future(answer)
            for _ in range(5):
                await asyncio.sleep(0)
            assert not task.done()
            kernel.commit(code)
            found.append((await task).code)
        return found

    assert asyncio.run(answers()) == [0, rc.QUOTA_EXCEEDED]


def test_what_is_stored_for_a_session_that_is_away_has_a_receiver(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    leave(kernel, "away", "t/#", expiry_s=6000)
    assert published(kernel, "t/1").code == 0
    assert published(kernel, "u").code == rc.NO_MATCHING_SUBSCRIBERS
    kernel = kernel.crash()  # its filters are on the disk only
    assert published(kernel, "u").code == 0


def test_many_are_published_in_their_order() -> None:
    kernel = Kernel()
    peer = kernel.connect("sub")
    peer.subscribe("t/+")
    wanted = NewMessages([NewMessage(f"t/{number}", b"") for number in range(120)] + [NewMessage("#", b"")])
    rows = asker_of(kernel).streamed("messages.publish_all", wanted)
    kernel.run()
    assert [row.code for row in rows] == [0] * 120 + [rc.TOPIC_NAME_INVALID]
    topics = [packet.topic for packet in peer.received() if isinstance(packet, p.Publish)]
    assert topics == [b"t/%d" % number for number in range(120)]
