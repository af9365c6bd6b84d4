"""What a client hears when it comes back, and in which order."""

from heliograph.mqtt import packets as p
from support.cases import cases
from support.kernel import Kernel, Peer


def away(kernel: Kernel, version: int) -> Peer:
    """A client that left unacknowledged messages and for which others waited; the publisher."""
    if version == p.V5:
        sub = kernel.connect("sub", session_expiry_interval=60, receive_maximum=2)
    else:
        sub = kernel.connect("sub", version=version, clean_start=False)
    sub.subscribe("t", 2)
    pub = kernel.connect("pub")
    pub.publish("t", b"one", 1)
    pub.publish("t", b"two", 2)
    sub.ack(p.PUBREC, 2)
    sub.drop()
    pub.publish("t", b"three", 1)
    pub.publish("t", b"four", 0)
    return pub


@cases("version", [p.V3_1, p.V3_1_1, p.V5])
def test_connack_first_then_what_is_sent_again_then_what_waited(version: int) -> None:
    kernel = Kernel()
    away(kernel, version)
    again = kernel.peer(version)
    again.connect("sub", clean_start=False)
    assert again.heard() == [
        "CONNACK 0x00" + (" present" if version != p.V3_1 else ""),  # MQTT 3.1 has no word for it
        "PUBLISH t 'one' q1 #1 dup",
        "PUBREL #2",
        "PUBLISH t 'three' q1 #3",
        "PUBLISH t 'four' q0",
    ]


def test_a_clean_start_hears_nothing_of_it() -> None:
    kernel = Kernel()
    pub = away(kernel, p.V5)
    again = kernel.peer()
    again.connect("sub", clean_start=True)
    pub.publish("t", b"five", 1)
    assert again.heard() == ["CONNACK 0x00"]


def test_subscriptions_and_their_options_outlive_the_connection() -> None:
    kernel = Kernel()
    sub = kernel.connect("sub", session_expiry_interval=60)
    sub.subscribe("t/#", 1, no_local=True, retain_as_published=True, subscription_identifier=[7])
    sub.drop()
    again = kernel.peer()
    again.connect("sub", clean_start=False)
    again.received()
    again.publish("t/own", b"x")
    kernel.connect("pub").publish("t/other", b"x", 1, retain=True)
    publish = again.take(p.Publish)
    assert (publish.topic, publish.retain, publish.property_bytes) == (b"t/other", True, b"\x0b\x07")


def test_a_qos_2_message_of_the_client_is_not_published_twice() -> None:
    kernel = Kernel()
    sub = kernel.connect("sub")
    sub.subscribe("t", 2)
    pub = kernel.connect("pub", session_expiry_interval=60)
    pub.publish("t", b"x", 2, 5)
    pub.drop()
    again = kernel.peer()
    again.connect("pub", clean_start=False)
    again.publish("t", b"x", 2, 5, dup=True)
    again.ack(p.PUBREL, 5)
    assert again.heard() == ["CONNACK 0x00 present", "PUBREC #5", "PUBCOMP #5"]
    assert sub.heard() == ["PUBLISH t 'x' q2 #1"]


def test_topic_aliases_do_not_outlive_the_connection() -> None:
    kernel = Kernel()
    pub = kernel.connect("pub", session_expiry_interval=60)
    pub.publish("t", b"x", topic_alias=1)
    pub.drop()
    again = kernel.peer()
    again.connect("pub", clean_start=False)
    again.publish("", b"x", topic_alias=1)
    assert again.heard() == ["CONNACK 0x00 present", "DISCONNECT 0x82"]
