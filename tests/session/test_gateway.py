"""A session serves a client that does not speak MQTT: queue, window and durability are the same, the bytes are its own.

What stands here for a gateway speaks a protocol of lines, made after CoAP: a notification is confirmable (CON, with a
message id) or not (NON), is acknowledged by ACK, and is retransmitted while the client stays connected.
"""

from dataclasses import replace
from pathlib import Path

from heliograph.broker.message import Message
from heliograph.broker.subscription import Subscription
from heliograph.session.encoder import Encoder
from heliograph.session.mqueue import Delivery
from heliograph.session.outbox import Outbox
from heliograph.session.session import Session
from support.durable import DurableKernel
from support.kernel import FakeWire, Kernel
from support.options import SESSION

PAYLOAD_BYTES_MAX = 16


class LineEncoder(Encoder):
    """Writes notifications as lines of text."""

    def __init__(self) -> None:
        super().__init__(is_shared=False, repeats=True)

    def put(self, outbox: Outbox, delivery: Delivery, packet_id: int, is_repeated: bool, now_us: int) -> str | None:
        message = delivery.message
        if len(message.payload) > PAYLOAD_BYTES_MAX:
            return "too_large"
        kind = "NON" if packet_id == 0 else f"CON {packet_id}"
        again = " again" if is_repeated else ""
        outbox.put(f"{kind}{again} {message.topic} {message.payload.decode()}\n".encode())
        return None


class SharedLineEncoder(LineEncoder):
    """The same, whose receivers share the line of a message at QoS 0."""

    def __init__(self) -> None:
        super().__init__()
        self.is_shared = True

    def put_plain(self, outbox: Outbox, message: Message) -> bool:
        outbox.put(f"ALL {message.topic} {message.payload.decode()}\n".encode())
        return True


class Thing:
    """A gateway's client with its connection."""

    def __init__(self, kernel: Kernel, encoder: Encoder | None = None, window: int = 2) -> None:
        self._kernel = kernel
        self._wire = FakeWire()
        options = kernel.options.session
        self.session, self.is_known = kernel.sessions.open("thing", False, options, 3600)
        self.session.attach(Outbox(kernel.context.flusher, self._wire), encoder or LineEncoder(), window)
        self.session.resume()

    def observe(self, topic_filter: str, qos: int = 1, group: str = "") -> None:
        name = f"$share/{group}/{topic_filter}" if group else topic_filter
        self.session.subscribe(name, Subscription(self.session, topic_filter, qos, False, False, 0, 0, group))

    def heard(self) -> list[str]:
        self._kernel.run()
        lines = self._wire.written.decode().splitlines()
        self._wire.written.clear()
        return lines

    def leave(self) -> None:
        self._kernel.sessions.leave(self.session, None)
        self._kernel.run()


def session_numbers(session: Session) -> tuple[int, int]:
    numbers = session.statistics()
    return numbers["inflight_cnt"], numbers["mqueue_len"]


def test_the_window_and_the_queue_work_for_another_protocol() -> None:
    kernel = Kernel()
    thing, pub = Thing(kernel), kernel.connect("pub")
    thing.observe("room/+")
    for number in range(4):
        pub.publish("room/a", b"%d" % number, 1)
    pub.publish("room/b", b"now", 0)
    assert thing.heard() == ["CON 1 room/a 0", "CON 2 room/a 1", "NON room/b now"]
    assert session_numbers(thing.session) == (2, 2)
    assert thing.session.on_puback(1)
    assert thing.heard() == ["CON 3 room/a 2"]
    assert not thing.session.on_puback(1)
    assert thing.session.on_puback(2)
    assert thing.session.on_puback(3)
    assert thing.heard() == ["CON 4 room/a 3"]


def test_a_session_that_has_ended_takes_no_subscription() -> None:
    kernel = Kernel()
    thing, pub = Thing(kernel), kernel.connect("pub")
    thing.session.close()
    thing.observe("t")
    pub.publish("t", b"", 1, 1)
    assert (thing.session.subscriptions, pub.heard()) == ({}, ["PUBACK #1 0x10"])


def test_what_was_not_acknowledged_is_retransmitted_in_time_and_on_the_next_connection() -> None:
    kernel = Kernel(session_options=replace(SESSION, retry_interval_us=2_000_000))
    thing, pub = Thing(kernel), kernel.connect("pub")
    thing.observe("t")
    pub.publish("t", b"one", 1)
    assert thing.heard() == ["CON 1 t one"]
    kernel.advance(3)
    thing.session.retry(kernel.broker.uptime_us)
    assert thing.heard() == ["CON 1 again t one"]
    thing.leave()
    pub.publish("t", b"two", 1)
    back = Thing(kernel)
    assert back.is_known
    assert back.heard() == ["CON 1 again t one", "CON 2 t two"]


def test_what_its_encoder_refuses_is_dropped_and_takes_no_place() -> None:
    kernel = Kernel()
    thing, pub = Thing(kernel, window=1), kernel.connect("pub")
    thing.observe("t")
    pub.publish("t", b"x" * (PAYLOAD_BYTES_MAX + 1), 1)
    pub.publish("t", b"short", 1)
    assert thing.heard() == ["CON 2 t short"]
    assert thing.session.sender.dropped_count == 1
    assert kernel.broker.counters.delivery_dropped_too_large == 1


def test_messages_expire_while_they_wait() -> None:
    kernel = Kernel()
    thing, pub = Thing(kernel, window=1), kernel.connect("pub")
    thing.observe("t")
    pub.publish("t", b"first", 1)
    pub.publish("t", b"short-lived", 1, message_expiry_interval=5)
    pub.publish("t", b"last", 1)
    assert thing.heard() == ["CON 1 t first"]
    kernel.advance(6)
    thing.session.on_puback(1)
    assert thing.heard() == ["CON 2 t last"]


def test_receivers_of_one_encoder_may_share_what_is_written_at_qos_0() -> None:
    kernel = Kernel()
    thing, pub = Thing(kernel, encoder=SharedLineEncoder()), kernel.connect("pub")
    thing.observe("t")
    pub.publish("t", b"plain", 0)
    pub.publish("t", b"safe", 1)
    assert thing.heard() == ["ALL t plain", "CON 1 t safe"]


def test_a_member_of_a_shared_group_takes_over_what_another_one_leaves() -> None:
    kernel = Kernel()
    thing, pub = Thing(kernel), kernel.connect("pub")
    thing.observe("job", 1, "g")
    pub.publish("job", b"work", 1)
    assert thing.heard() == ["CON 1 job work"]
    other = kernel.connect("other")
    other.subscribe("$share/g/job", 1)
    thing.session.expiry_interval_s = 0
    thing.leave()
    assert other.heard() == ["PUBLISH job 'work' q1 #1"]


def test_a_durable_session_survives_the_broker_whatever_its_client_speaks(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    thing, pub = Thing(kernel), kernel.connect("pub")
    thing.observe("t")
    pub.publish("t", b"sent", 1)
    assert thing.heard() == ["CON 1 t sent"]
    thing.leave()
    pub.publish("t", b"missed", 1)
    again = kernel.crash()
    back = Thing(again)
    assert back.is_known
    assert back.heard() == ["CON 1 again t sent", "CON 2 t missed"]


class FaultyEncoder(LineEncoder):
    """Fails once."""

    def __init__(self) -> None:
        super().__init__()
        self.fails = True

    def put(self, outbox: Outbox, delivery: Delivery, packet_id: int, is_repeated: bool, now_us: int) -> str | None:
        if self.fails:
            self.fails = False
            raise RuntimeError("it cannot be written")
        return super().put(outbox, delivery, packet_id, is_repeated, now_us)


def test_a_message_at_qos_2_waits_for_its_commit_after_one_that_could_not_be_replayed(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    faults = kernel.contain_faults()
    thing, pub = Thing(kernel), kernel.connect("pub")
    thing.observe("t", 2)
    thing.leave()
    pub.publish("t", b"missed", 1)
    kernel.run()
    back = Thing(kernel, FaultyEncoder())
    kernel.run()
    assert len(faults) == 1
    back.leave()
    again = Thing(kernel)
    kernel.run()
    kernel.automatic = False
    pub.publish("t", b"new", 2)
    kernel.commit_state()
    assert again.heard() == []  # its own commit is not done
    kernel.commit()
    assert again.heard() == ["CON 2 t new"]
