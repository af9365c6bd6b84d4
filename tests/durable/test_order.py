"""What waits for which commit, and what a crash in between leaves."""

from dataclasses import replace
from pathlib import Path

from heliograph.durable_sessions import record
from heliograph.durable_sessions.taken import note_off
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from support.durable import DurableKernel, after_a_lost_identifier
from support.kernel import Peer
from support.options import SESSION


def subscribed(kernel: DurableKernel, qos: int = 2) -> Peer:
    """A connected subscriber of `t`, from which on commits are made by hand."""
    sub = kernel.come("sub")
    sub.skip()
    sub.subscribe("t", qos)
    kernel.automatic = False
    return sub


def commit_all_state(kernel: DurableKernel) -> None:
    while kernel.state.waiting:
        kernel.commit_state()


def test_connack_waits_for_the_session(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    kernel.automatic = False
    sub = kernel.come("sub")
    assert sub.heard() == []
    commit_all_state(kernel)
    assert sub.heard() == ["CONNACK 0x00"]


def test_a_clean_start_that_was_told_holds(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    sub = subscribed(kernel)
    sub.drop()
    commit_all_state(kernel)
    clean = kernel.come("sub", clean_start=True, expiry_s=0)  # a session in memory takes the place
    assert clean.heard() == []
    again = kernel.crash().come("sub")
    assert again.heard() == ["CONNACK 0x00 present"]  # it was not told


def test_suback_waits_for_the_subscription(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    sub = subscribed(kernel)
    sub.send_subscribe(p.SubscribeEntry("u", 1, False, False, 0))
    assert sub.heard() == []
    commit_all_state(kernel)
    assert sub.heard() == ["SUBACK #2 [0x01]"]


def test_a_qos_2_message_waits_for_its_commit_and_that_of_its_identifier(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    sub = subscribed(kernel)
    pub = kernel.connect("pub")
    pub.publish("t", b"x", 2)
    commit_all_state(kernel)
    assert sub.heard() == []
    kernel.commit()
    assert sub.heard() == ["PUBLISH t 'x' q2 #1"]


def test_at_qos_1_nothing_waits(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    sub = subscribed(kernel, 1)
    kernel.connect("pub").publish("t", b"x", 2)
    assert sub.heard() == ["PUBLISH t 'x' q1 #1"]


def test_a_qos_2_message_comes_again_under_its_identifier_after_a_crash(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    sub = subscribed(kernel)
    kernel.automatic = True
    pub = kernel.connect("pub")
    for payload in (b"zero", b"one", b"two"):
        pub.publish("t", payload, 2)
    assert len(sub.received()) == 3
    for number in (1, 2):
        sub.ack(p.PUBREC, number)
    sub.ack(p.PUBCOMP, 1)
    assert sub.heard() == ["PUBREL #1", "PUBREL #2"]
    kernel.advance(2)
    again = kernel.crash().come("sub")
    assert again.heard() == ["CONNACK 0x00 present", "PUBREL #2", "PUBLISH t 'two' q2 #3 dup"]


def test_pubrel_waits_for_the_phase(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    sub = subscribed(kernel)
    kernel.automatic = True
    kernel.connect("pub").publish("t", b"x", 2)
    sub.skip()
    kernel.automatic = False
    sub.ack(p.PUBREC, 1)
    assert sub.heard() == []
    commit_all_state(kernel)
    assert sub.heard() == ["PUBREL #1"]


def test_a_taken_identifier_survives_and_its_message_is_not_published_again(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    pub = kernel.come("pub")
    pub.skip()
    pub.publish("t", b"x", 2, 7)
    pub.skip()
    kernel = kernel.crash()
    sub = kernel.connect("sub")
    sub.subscribe("t", 2)
    pub = kernel.come("pub")
    pub.skip()
    pub.publish("t", b"x", 2, 7, dup=True)
    assert pub.heard() == ["PUBREC #7"]
    assert sub.heard() == []
    pub.ack(p.PUBREL, 7)
    assert pub.heard() == ["PUBCOMP #7"]
    kernel = kernel.crash()
    sub = kernel.connect("sub")
    sub.subscribe("t", 2)
    pub = kernel.come("pub")
    pub.publish("t", b"new", 2, 7)
    assert sub.heard() == ["PUBLISH t 'new' q2 #1"]


def test_pubrec_and_pubcomp_wait_for_the_identifier(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    pub = kernel.come("pub")
    pub.skip()
    kernel.automatic = False
    pub.publish("t", b"x", 2, 7)
    kernel.commit()
    assert pub.heard() == []
    commit_all_state(kernel)
    assert len(pub.received()) == 1
    pub.ack(p.PUBREL, 7)
    assert pub.heard() == []
    commit_all_state(kernel)
    assert pub.heard() == ["PUBCOMP #7"]


def test_a_message_whose_identifier_was_lost_is_not_published_again(tmp_path: Path) -> None:
    kernel = after_a_lost_identifier(tmp_path)
    sub = kernel.connect("sub")
    sub.subscribe("t", 2)
    pub = kernel.come("pub")
    pub.skip()
    pub.publish("t", b"x", 2, 7, dup=True)
    assert pub.heard() == ["PUBREC #7"]
    assert sub.heard() == []
    pub.publish("t", b"x", 2, 8, dup=True)  # only one was
    assert sub.heard() == ["PUBLISH t 'x' q2 #1"]


def test_the_repetition_of_what_a_crash_kept_is_retained_again(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    pub = kernel.come("pub")
    pub.skip()
    kernel.advance(1)
    pub.publish("t", b"known", 2, 7, retain=True)
    kernel.automatic = False
    pub.publish("u", b"orphan", 2, 8, retain=True)
    kernel.commit()
    kernel = kernel.crash()  # both messages are stored, and neither is retained
    pub = kernel.come("pub")
    pub.skip()
    pub.publish("t", b"known", 2, 7, retain=True, dup=True)
    pub.publish("u", b"orphan", 2, 8, retain=True, dup=True)
    assert pub.heard() == ["PUBREC #7", "PUBREC #8"]
    sub = kernel.connect("sub")
    sub.send_subscribe(p.SubscribeEntry("#", 0, False, False, 0))
    assert sub.heard() == ["SUBACK #1 [0x00]", "PUBLISH t 'known' q0 retain", "PUBLISH u 'orphan' q0 retain"]


def test_the_repetition_of_what_has_been_replaced_is_not_retained_again(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    pub = kernel.come("pub")
    pub.skip()
    pub.publish("t", b"older", 2, 7, retain=True)
    kernel.advance(1)
    kernel.connect("other").publish("t", b"newer", 1, retain=True)
    kernel = kernel.crash()  # the memory of what was retained is gone
    pub = kernel.come("pub")
    pub.skip()
    pub.publish("t", b"older", 2, 7, retain=True, dup=True)
    assert pub.heard() == ["PUBREC #7"]
    sub = kernel.connect("sub")
    sub.subscribe("#", 0)
    assert sub.heard() == []


def test_a_start_looks_no_further_than_to_where_sessions_were_switched_off(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    pub = kernel.come("pub")
    pub.skip()
    kernel.advance(2)
    kernel.automatic = False
    pub.publish("t", b"before", 2, 7)
    kernel.commit()
    head_us = kernel.durable.head_us
    pub.publish("t", b"after", 2, 8)  # as if its session were in memory
    kernel.commit()
    kernel.state.waiting.clear()  # what says that they were taken is lost
    note_off(kernel.state, head_us)
    kernel.state.commit()
    kernel = kernel.crash()
    assert [value for key, value in kernel.state.values.items() if key == record.OFF_SINCE] == []
    sub = kernel.connect("sub")
    sub.subscribe("t", 2)
    pub = kernel.come("pub")
    pub.skip()
    pub.publish("t", b"before", 2, 7, dup=True)
    pub.publish("t", b"after", 2, 8, dup=True)
    assert sub.heard() == ["PUBLISH t 'after' q2 #1"]


def test_a_message_that_was_lost_with_its_identifier_is_published(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    pub = kernel.come("pub")
    pub.skip()
    kernel.automatic = False
    pub.publish("t", b"x", 2, 7)
    kernel = kernel.crash()
    sub = kernel.connect("sub")
    sub.subscribe("t", 2)
    kernel.come("pub").publish("t", b"x", 2, 7, dup=True)
    assert sub.heard() == ["PUBLISH t 'x' q2 #1"]


def test_a_qos_2_message_waits_for_its_commit_also_on_the_next_connection(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    sub = subscribed(kernel)
    kernel.connect("pub").publish("t", b"x", 2)
    commit_all_state(kernel)
    sub.drop()
    sub = kernel.come("sub")
    commit_all_state(kernel)
    assert sub.heard() == ["CONNACK 0x00 present"]
    kernel.commit()
    commit_all_state(kernel)
    assert sub.heard() == ["PUBLISH t 'x' q2 #1 dup"]


def test_a_qos_2_message_that_a_start_found_waits_for_no_commit(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    sub = subscribed(kernel)
    kernel.automatic = True
    kernel.connect("pub").publish("t", b"x", 2)
    assert sub.heard() == ["PUBLISH t 'x' q2 #1"]
    assert kernel.crash().come("sub").heard() == ["CONNACK 0x00 present", "PUBLISH t 'x' q2 #1 dup"]


def test_a_qos_2_message_whose_commit_is_refused_is_not_sent(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    sub = subscribed(kernel)
    pub = kernel.connect("pub")
    pub.publish("t", b"refused", 2)
    commit_all_state(kernel)
    kernel.commit(rc.QUOTA_EXCEEDED)
    assert pub.heard() == ["PUBREC #1 0x97"]
    assert sub.heard() == []
    assert sub.closed()
    kernel.automatic = True
    kernel.run()
    again = kernel.come("sub")
    assert again.heard() == ["CONNACK 0x00 present"]
    pub.publish("t", b"refused", 2, packet_id=2)
    assert [packet.payload for packet in again.received() if isinstance(packet, p.Publish)] == [b"refused"]


def test_a_refused_qos_2_message_that_waited_is_not_sent(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path, session_options=replace(SESSION, max_inflight=1))
    sub = subscribed(kernel)
    pub = kernel.connect("pub")
    pub.publish("t", b"taken", 2)
    kernel.sink.cut()
    pub.publish("t", b"refused", 2)
    kernel.commit()
    commit_all_state(kernel)
    kernel.commit(rc.QUOTA_EXCEEDED)
    kernel.automatic = True
    assert sub.heard() == ["PUBLISH t 'taken' q2 #1"]
    sub.ack(p.PUBREC, 1)
    sub.ack(p.PUBCOMP, 1)
    assert sub.heard() == ["PUBREL #1"]
    pub.publish("t", b"later", 2)
    assert [packet.payload for packet in sub.received() if isinstance(packet, p.Publish)] == [b"later"]
