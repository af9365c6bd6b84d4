"""What an authenticator grants, from the acceptance of the client to its end or its next authentication."""

from dataclasses import replace

from heliograph.broker import hooks
from heliograph.broker.authentication import AuthAttempt, AuthStep, Grants
from heliograph.broker.client import ClientInfo
from heliograph.channel.options import ChannelOptions
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from support.cases import cases
from support.kernel import START_US, Kernel, Peer
from support.options import CHANNEL, LISTENER
from support.packets import properties

VERSIONS = [p.V3_1, p.V3_1_1, p.V5]
WILL = p.Will("w", b"gone", 0, False, properties())


class Granting:
    """An authenticator of all methods that grants what it is told to, after as many challenges as it is told to."""

    def __init__(self, grants: Grants | None = None, challenges_count: int = 0) -> None:
        self.grants = grants
        self.challenges_count = challenges_count
        self.states: list[object] = []

    def __call__(self, client: ClientInfo, attempt: AuthAttempt, outcome: object) -> tuple[str, AuthStep]:
        asked = attempt.state if isinstance(attempt.state, int) else 0
        self.states.append(attempt.state)
        attempt.state = asked + 1
        if attempt.method is not None and asked < self.challenges_count:
            return hooks.STOP, AuthStep(rc.CONTINUE_AUTHENTICATION, b"?")
        return hooks.STOP, AuthStep(rc.SUCCESS, grants=self.grants)


def kernel_with(authenticator: Granting, options: ChannelOptions | None = None) -> Kernel:
    kernel = Kernel(options)
    kernel.broker.hooks.client_authenticate.add(authenticator)
    return kernel


def client_of(kernel: Kernel, clientid: str = "c") -> ClientInfo:
    client = kernel.context.channels.find_client(clientid)
    assert client is not None
    return client


def again(peer: Peer) -> None:
    """Authenticate once more, in one step."""
    peer.auth(rc.REAUTHENTICATE, authentication_method="m")
    assert peer.take(p.Auth).code == rc.SUCCESS


def test_a_client_has_what_it_is_granted() -> None:
    acl = object()
    kernel = kernel_with(Granting(Grants(True, {"site": "a"}, 1_800_000_000_000, acl)))
    kernel.connect()
    client = client_of(kernel)
    assert client.is_superuser
    assert dict(client.client_attrs) == {"site": "a"}
    assert (client.expires_at_us, client.acl) == (1_800_000_000_000_000, acl)


def test_attributes_are_merged_over_those_that_are_there_and_make_the_mountpoint() -> None:
    options = replace(
        CHANNEL,
        listener=replace(
            LISTENER,
            mountpoint="at/${client_attrs.site}/",
            attributes_of=lambda client, connect: {"site": "x", "kind": "pump"},
        ),
    )
    kernel = kernel_with(Granting(Grants(client_attrs={"site": "a"})), options)
    kernel.connect()
    assert dict(client_of(kernel).client_attrs) == {"site": "a", "kind": "pump"}
    assert client_of(kernel).mountpoint == "at/a/"


def test_a_client_without_its_place_in_the_mountpoint_is_refused_after_its_authentication() -> None:
    authenticator = Granting(Grants())
    kernel = kernel_with(
        authenticator, replace(CHANNEL, listener=replace(LISTENER, mountpoint="at/${client_attrs.site}/"))
    )
    peer = kernel.peer()
    peer.connect()
    assert peer.heard() == ["CONNACK 0x85"]
    assert authenticator.states == [None]


def test_authenticating_again_replaces_what_was_granted_before() -> None:
    authenticator = Granting(Grants(True, {"a": "1"}, 1_800_000_000_000, object()))
    kernel = kernel_with(authenticator)
    peer = kernel.connect(authentication_method="m")
    authenticator.grants = Grants(client_attrs={"b": "2"})
    again(peer)
    client = client_of(kernel)
    assert (client.is_superuser, client.expires_at_us, client.acl) == (False, 0, None)
    assert dict(client.client_attrs) == {"b": "2"}
    authenticator.grants = None
    again(peer)
    assert dict(client_of(kernel).client_attrs) == {}


def test_the_state_of_an_exchange_is_kept_between_its_packets_and_not_longer() -> None:
    authenticator = Granting(challenges_count=2)
    kernel = kernel_with(authenticator)
    peer = kernel.peer()
    peer.connect(authentication_method="m")
    for _ in range(2):
        peer.auth(rc.CONTINUE_AUTHENTICATION, authentication_method="m")
    assert peer.heard() == ["AUTH 0x18", "AUTH 0x18", "CONNACK 0x00"]
    authenticator.challenges_count = 0
    again(peer)
    assert authenticator.states == [None, 1, 2, None]


@cases("version", VERSIONS)
def test_a_client_is_disconnected_when_its_grant_ends(version: int) -> None:
    kernel = kernel_with(Granting(Grants(expire_at_ms=START_US // 1000 + 10_000)))
    witness = kernel.connect("witness", version=p.V5)
    client_of(kernel, "witness").expires_at_us = 0
    witness.subscribe("w")
    ends: list[str] = []
    kernel.broker.hooks.client_disconnected.add(lambda client, reason, *_: ends.append(reason))
    peer = kernel.connect("c", version=version, will=WILL)
    kernel.advance(9.999)
    assert not peer.closed()
    kernel.advance(0.001)
    assert peer.heard() == (["DISCONNECT 0x87"] if version == p.V5 else [])
    assert peer.closed()
    assert [packet.payload for packet in witness.received() if isinstance(packet, p.Publish)] == [b"gone"]
    assert ends == ["expired"]


def test_another_authentication_puts_the_end_off() -> None:
    authenticator = Granting(Grants(expire_at_ms=START_US // 1000 + 10_000))
    kernel = kernel_with(authenticator)
    peer = kernel.connect(authentication_method="m")
    authenticator.grants = Grants(expire_at_ms=START_US // 1000 + 20_000)
    again(peer)
    kernel.advance(15)
    assert not peer.closed()
    kernel.advance(5)
    assert peer.closed()


def test_a_superuser_that_is_none_any_more_loses_what_it_may_not_have() -> None:
    authenticator = Granting(Grants(is_superuser=True))
    kernel = kernel_with(authenticator)
    kernel.broker.hooks.client_authorize.add(lambda *_: (hooks.STOP, "deny"))
    peer = kernel.connect(authentication_method="m")
    assert peer.subscribe("t") == [0]
    authenticator.grants = Grants()
    again(peer)
    assert kernel.broker.statistics()["subscriptions.count"] == 0


@cases(
    ("code", "v5", "v3"),
    [
        (rc.BAD_USERNAME_OR_PASSWORD, 0x86, 4),
        (rc.NOT_AUTHORIZED, 0x87, 5),
        (rc.BANNED, 0x8A, 5),
        (rc.BAD_AUTHENTICATION_METHOD, 0x8C, 5),
        (rc.SERVER_UNAVAILABLE, 0x88, 3),
        (rc.SERVER_BUSY, 0x89, 3),
        (rc.QUOTA_EXCEEDED, 0x97, 3),
        (rc.PROTOCOL_ERROR, 0x82, 1),
        (rc.UNSPECIFIED_ERROR, 0x80, 1),
        (0x9E, 0x80, 1),
    ],
)
def test_how_a_client_is_told_that_it_is_refused(code: int, v5: int, v3: int) -> None:
    kernel = Kernel()
    kernel.broker.hooks.client_authenticate.add(lambda *_: (hooks.STOP, AuthStep(code)))
    for version, told in ((p.V5, v5), (p.V3_1_1, v3), (p.V3_1, v3)):
        peer = kernel.peer(version)
        peer.connect()
        assert peer.wire.written[3] == told
        assert peer.closed()


@cases("username", [None, ""])
def test_who_names_no_user_may_be_refused_before_any_authenticator(username: str | None) -> None:
    authenticator = Granting()
    kernel = kernel_with(authenticator, replace(CHANNEL, listener=replace(LISTENER, deny_anonymous=True)))
    told: list[object] = []
    kernel.broker.hooks.client_check_authn_complete.add(lambda client, *args: told.append(args[:3]))
    peer = kernel.peer()
    peer.connect(username=username)
    assert peer.heard() == ["CONNACK 0x87"]
    assert authenticator.states == []
    assert told == [(rc.NOT_AUTHORIZED, False, False)]


def test_how_an_authentication_ended_is_told_and_counted() -> None:
    kernel = Kernel()
    told: list[object] = []
    kernel.broker.hooks.client_check_authn_complete.add(lambda client, *args: told.append((client.clientid, *args[:3])))
    kernel.connect("nobody asked")
    kernel.connect("not even that", options=replace(CHANNEL, listener=replace(LISTENER, enable_authn=False)))
    authenticator = Granting(Grants(is_superuser=True), 1)
    kernel.broker.hooks.client_authenticate.add(authenticator)
    kernel.connect("known", username="u")
    peer = kernel.peer()
    peer.connect("challenged", authentication_method="m")
    assert len(told) == 3
    peer.auth(rc.CONTINUE_AUTHENTICATION, authentication_method="m")
    kernel.broker.hooks.client_authenticate.add(lambda *_: (hooks.STOP, rc.NOT_AUTHORIZED), 1)
    kernel.peer().connect("refused")
    assert told == [
        ("nobody asked", rc.SUCCESS, False, True),
        ("not even that", rc.SUCCESS, False, True),
        ("known", rc.SUCCESS, True, False),
        ("challenged", rc.SUCCESS, True, False),
        ("refused", rc.NOT_AUTHORIZED, False, False),
    ]
    counts = kernel.broker.counters.snapshot()
    names = ("client.authenticate", "client.auth.anonymous", "authentication.success", "authentication.failure")
    assert [counts[name] for name in names] == [5, 2, 4, 1]
