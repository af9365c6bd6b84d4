"""A session belongs to the user that made it: no other user gets it, ends it, or takes it over."""

from dataclasses import replace
from pathlib import Path

from heliograph.broker import hooks
from heliograph.broker.authentication import AuthAttempt, AuthStep
from heliograph.broker.client import ClientInfo
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from support.cases import cases
from support.durable import DurableKernel
from support.kernel import Kernel
from support.options import CHANNEL

VERSIONS = [p.V3_1_1, p.V5]
REFUSED = ["CONNACK 0x87"]


def let_users_in(client: ClientInfo, attempt: AuthAttempt, outcome: object) -> tuple[str, AuthStep] | None:
    """An authenticator that has an opinion of every client with a user name."""
    return (hooks.STOP, AuthStep(rc.SUCCESS)) if client.username else None


def guarded(kernel: Kernel) -> Kernel:
    kernel.broker.hooks.point(hooks.CLIENT_AUTHENTICATE).add(let_users_in)
    return kernel


@cases("version", VERSIONS)
@cases("clean_start", [False, True])
@cases("is_restarted", [False, True])
@cases("username", ["bob", None])
def test_nobody_else_gets_or_ends_a_session_that_is_away(
    tmp_path: Path, version: int, clean_start: bool, is_restarted: bool, username: str | None
) -> None:
    kernel = DurableKernel(tmp_path)
    guarded(kernel)
    alice = kernel.come("device", version=version, username="alice")
    alice.skip()
    alice.subscribe("t", 1)
    alice.drop()
    kernel.connect("pub").publish("t", b"secret", 1)
    if is_restarted:
        kernel = kernel.crash()
        guarded(kernel)
    thief = kernel.peer(version)
    thief.connect("device", clean_start=clean_start, username=username)
    assert thief.heard() == REFUSED
    assert thief.closed()
    again = kernel.come("device", version=version, username="alice")
    assert again.heard() == ["CONNACK 0x00 present", "PUBLISH t 'secret' q1 #1"]


@cases("version", VERSIONS)
@cases("clean_start", [False, True])
def test_nobody_else_takes_over_a_connection(version: int, clean_start: bool) -> None:
    kernel = guarded(Kernel())
    alice = kernel.connect("device", version=version, username="alice")
    thief = kernel.peer(version)
    thief.connect("device", clean_start=clean_start, username="bob")
    assert thief.heard() == REFUSED
    assert not alice.closed()
    again = kernel.peer(version)
    again.connect("device", clean_start=clean_start, username="alice")
    assert again.heard() == ["CONNACK 0x00"]
    assert alice.closed()


def test_a_session_that_nobody_was_let_in_with_is_anybodys() -> None:
    kernel = guarded(Kernel())
    kernel.connect("device", session_expiry_interval=60).drop()
    alice = kernel.peer()
    alice.connect("device", clean_start=False, session_expiry_interval=60, username="alice")
    assert alice.heard() == ["CONNACK 0x00 present"]
    bob = kernel.peer()
    bob.connect("device", clean_start=False, username="bob")
    assert bob.heard() == ["CONNACK 0x87"]


def test_it_can_be_switched_off() -> None:
    kernel = guarded(Kernel(replace(CHANNEL, bind_session_to_user=False)))
    kernel.connect("device", session_expiry_interval=60, username="alice").drop()
    bob = kernel.peer()
    bob.connect("device", clean_start=False, username="bob")
    assert bob.heard() == ["CONNACK 0x00 present"]
