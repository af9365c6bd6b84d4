"""Which session a client gets, and when one that nobody comes back to ends."""

from heliograph.broker import hooks
from heliograph.mqtt import packets as p
from support.cases import cases
from support.kernel import Kernel
from support.reach import count

NEVER = 0xFFFFFFFF


def life_of(kernel: Kernel) -> list[str]:
    called: list[str] = []
    for name in (
        hooks.SESSION_CREATED,
        hooks.SESSION_RESUMED,
        hooks.SESSION_DISCARDED,
        hooks.SESSION_TAKENOVER,
        hooks.SESSION_TERMINATED,
    ):
        kernel.broker.hooks.point(name).add(lambda *args, name=name: called.append(name.removeprefix("session.")))
    return called


def present(kernel: Kernel, *, version: int = p.V5, clean_start: bool = False) -> bool:
    peer = kernel.peer(version)
    peer.connect("c", clean_start=clean_start)
    packet = peer.received()[0]
    assert isinstance(packet, p.Connack)
    peer.drop()
    return packet.session_present


@cases(
    ("expiry_s", "away_s", "is_kept"),
    [(0, 0, False), (60, 59, True), (60, 61, False), (NEVER, 10**9, True), (NEVER - 1, 10**9, True)],
)
def test_a_session_of_mqtt_5_lives_as_long_as_its_expiry_interval(expiry_s: int, away_s: int, is_kept: bool) -> None:
    kernel = Kernel()
    kernel.connect(session_expiry_interval=expiry_s).drop()
    kernel.advance(away_s)
    assert (kernel.sessions.find("c") is not None) is is_kept
    assert present(kernel) is is_kept


@cases("version", [p.V3_1, p.V3_1_1])
@cases(("clean", "away_s", "is_kept"), [(True, 0, False), (False, 7_199, True), (False, 7_201, False)])
def test_a_session_of_mqtt_3_lives_as_long_as_the_operator_says(
    version: int, clean: bool, away_s: int, is_kept: bool
) -> None:
    kernel = Kernel()
    kernel.connect(version=version, clean_start=clean).drop()
    kernel.advance(away_s)
    assert (kernel.sessions.find("c") is not None) is is_kept
    assert present(kernel, version=version) is (is_kept and version != p.V3_1)  # which has no word for it


def test_a_clean_start_ends_the_earlier_session() -> None:
    kernel = Kernel()
    called = life_of(kernel)
    first = kernel.connect(session_expiry_interval=60)
    first.subscribe("t", 1)
    first.drop()
    second = kernel.connect(clean_start=True, session_expiry_interval=60)
    kernel.connect("pub").publish("t", b"x", 1)
    assert second.heard() == []
    assert called == ["created", "discarded", "created", "created"]
    assert kernel.broker.router.statistics()["subscriptions.count"] == 0


def test_disconnect_changes_the_expiry_interval() -> None:
    kernel = Kernel()
    kernel.connect(session_expiry_interval=60).disconnect(session_expiry_interval=120)
    kernel.advance(100)
    assert present(kernel)
    kernel.connect(clean_start=False, session_expiry_interval=60).disconnect(session_expiry_interval=0)
    assert kernel.sessions.find("c") is None


def test_a_session_that_was_resumed_expires_anew() -> None:
    kernel = Kernel()
    called = life_of(kernel)
    for _ in range(3):
        peer = kernel.peer()
        peer.connect("c", clean_start=False, session_expiry_interval=60)
        kernel.advance(100)  # connected: nothing expires
        peer.drop()
        kernel.advance(59)
    assert kernel.sessions.find("c") is not None
    kernel.advance(2)
    assert kernel.sessions.find("c") is None
    assert called == ["created", "resumed", "resumed", "terminated"]


def test_an_ended_session_leaves_no_subscription_behind() -> None:
    kernel = Kernel()
    peer = kernel.connect(session_expiry_interval=5)
    for topic_filter in ("a", "a/+", "#"):
        peer.subscribe(topic_filter, 1)
    peer.drop()
    assert kernel.broker.router.statistics()["subscriptions.count"] == 3
    kernel.advance(6)
    assert kernel.broker.router.statistics()["subscriptions.count"] == 0
    assert kernel.sessions.statistics() == {"sessions.count": 0, "sessions.away": 0}


def test_a_client_that_comes_and_goes_leaves_no_timers_behind() -> None:
    kernel = Kernel()
    for _ in range(5_000):
        session, _ = kernel.sessions.open("c", False, kernel.options.session)
        session.expiry_interval_s = 3600
        kernel.sessions.leave(session, None)
    assert count(kernel.sessions, tuple) < 2_000
    assert kernel.sessions.statistics() == {"sessions.count": 1, "sessions.away": 1}
    kernel.advance(3601)
    assert len(kernel.sessions) == 0


def test_a_session_with_very_many_subscriptions_ends_at_once_and_is_cleared_away_bit_by_bit() -> None:
    kernel = Kernel()
    sub, pub = kernel.connect("sub"), kernel.connect("pub")
    sub.send_subscribe(*[p.SubscribeEntry(f"t/{number}", 1, False, False, 0) for number in range(25_000)])
    sub.skip()
    sub.disconnect()
    assert kernel.sessions.find("sub") is None
    assert kernel.broker.statistics()["subscriptions.count"] == 15_000
    back = kernel.connect("sub")
    assert back.subscribe("t/1", 1) == [1]
    pub.publish("t/1", b"x", 1)
    assert back.heard() == ["PUBLISH t/1 'x' q1 #1"]
    for left in (5_000, 0):
        kernel.advance(0.5)
        assert kernel.broker.statistics()["subscriptions.count"] == left + 1
