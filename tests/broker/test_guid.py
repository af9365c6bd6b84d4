from hypothesis import given
from hypothesis import strategies as st

from heliograph.broker.guid import IdSource
from support.kernel import START_US, Kernel


@given(node=st.integers(0, 0x7FFF), channel=st.integers(0, 0xFFFFFFFF))
def test_layout(node: int, channel: int) -> None:
    low = int(IdSource(node, channel).next_low())
    assert low.to_bytes(8, "big") == node.to_bytes(2, "big") + channel.to_bytes(4, "big") + b"\0\1"


def test_a_channel_gives_65536_different_ids_before_one_comes_again() -> None:
    source = IdSource(1, 2)
    lows = [int(source.next_low()) for _ in range(65_536)]
    assert len(set(lows)) == 65_536
    assert int(source.next_low()) == lows[0]


def test_ids_of_published_messages_tell_time_node_and_channel() -> None:
    kernel = Kernel(stored=["#"])
    one, two = kernel.connect("one"), kernel.connect("two")
    one.publish("t")
    kernel.advance(1)
    two.publish("t")
    two.publish("t")
    guids = [message.guid for _, message in kernel.sink.messages]
    assert [int.from_bytes(guid[:8], "big") for guid in guids] == [START_US, START_US + 1_000_000, START_US + 1_000_000]
    assert {guid[8:10] for guid in guids} == {b"\0\1"}
    assert guids[0][10:14] != guids[1][10:14] == guids[2][10:14]
    assert len(set(guids)) == 3
    assert guids == sorted(guids)


def test_ids_stay_unique_when_the_clock_is_set_back() -> None:
    kernel = Kernel(stored=["#"])
    peer = kernel.connect()
    peer.publish("t")
    kernel.now_us -= 3_600_000_000
    for _ in range(70):
        peer.send_bytes(b"\x30\x04\x00\x01t\x00" * 1_000)
    guids = [message.guid for _, message in kernel.sink.messages]
    assert len(set(guids)) == len(guids) == 70_001
    assert guids[0] == min(guids)
