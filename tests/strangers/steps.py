"""What people who did not write the broker tried with it, and what they must find.

Each step is a function with a `Place`; it raises `AssertionError` with what it found instead.
"""

import io
import json
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from heliograph.cli.main import main
from strangers.device import Device
from support.process import NodeProcess

SETTINGS: Final = """
mqtt.max_awaiting_rel = 1
diagnose.messages.enable = true
auto_subscribe.topics = [{ topic = "secret/all" }, { topic = "open/${clientid}" }]
sysmon.os { cpu_check_interval = 1h, mem_check_interval = disabled }
authorization { no_match = allow, sources = [{ type = file, path = "ACL" }] }
"""
ACL: Final = '{deny, {username, "bob"}, subscribe, ["secret/#"]}.\n'
USERS: Final = ("ann", "bob")

STEPS: Final[dict[str, Callable[["Place"], None]]] = {}


@dataclass(frozen=True)
class Place:
    """Where a step is taken.

    Attributes:
        node: The broker; its users have their names as passwords.
        directory: A directory for files.
    """

    node: NodeProcess
    directory: Path

    def device(self, version: int = 5) -> Device:
        return Device(self.node.port, version)

    def ctl(self, *words: str, code: int = 0) -> str:
        """What a command of `ctl` prints."""
        return command("ctl", *words, "--data-dir", str(self.node.data_dir), code=code)


def command(*words: str, code: int = 0) -> str:
    """What a command prints; its exit code must be `code`."""
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        found = main(list(words))
    assert found == code, f"heliograph {' '.join(words)} ended with {found}: {out.getvalue()}"
    return out.getvalue()


def prepare(directory: Path) -> NodeProcess:
    """The broker that all steps share, not started yet."""
    acl = directory / "acl.conf"
    acl.write_text(ACL)
    return NodeProcess(directory, SETTINGS.replace("ACL", str(acl)))


def add_users(place: Place) -> None:
    for name in USERS:
        password = place.directory / f"{name}.txt"
        password.write_text(name)
        place.ctl("users", "add", name, "--password-file", str(password))


def step(what: str) -> Callable[[Callable[[Place], None]], Callable[[Place], None]]:
    """Add a step, with what the broker must do in it."""

    def add(function: Callable[[Place], None]) -> Callable[[Place], None]:
        STEPS[what] = function
        return function

    return add


def _has(found: object, expected: object) -> None:
    assert found == expected, f"{found!r} instead of {expected!r}"


@step("an empty topic filter closes the connection, alone and in a list")
def empty_filters(place: Place) -> None:
    for filters in ('"" 00', '"a" 00 "" 00'):
        with place.device() as device:
            device.connect("empty", "ann")
            answer = device.ask(f"82 # 0001 {{}} {filters}")
            _has((answer[0], answer[2]), (0xE0, 0x82))
            _has(device.read(), b"")
    with place.device(4) as device:
        device.connect("empty", "ann")
        _has(device.ask('82 # 0001 "" 00'), b"")


@step("an acknowledgement of the wrong kind closes the connection")
def wrong_acknowledgements(place: Place) -> None:
    with place.device() as device:
        device.connect("wrong", "ann")
        device.ask('82 # 0001 {} "wrong" 01')
        device.send("32 # \"wrong\" 0002 {} 'x'")
        publish = next(packet for packet in iter(device.read, b"") if packet[0] >> 4 == 3)
        at = 4 + len("wrong")
        device.send("50 # " + publish[at : at + 2].hex())
        answers = list(iter(device.read, b""))
        _has((answers[-1][0], answers[-1][2]), (0xE0, 0x82))


@step("a connection that is half closed gets the reason of its end")
def half_closed(place: Place) -> None:
    with place.device() as device:
        device.connect("half", "ann")
        for number in (1, 2):
            device.send(f"34 # \"half\" 000{number} {{}} 'x'")
        device.say_no_more()
        answers = list(iter(device.read, b""))
        _has((answers[-1][0], answers[-1][2]), (0xE0, 0x93))


@step("a session belongs to the user that made it")
def sessions_of_users(place: Place) -> None:
    with place.device() as device:
        _has(device.connect("ann-1", "ann")[3], 0)
        device.ask('82 # 0001 {} "for/ann" 01')
    for clean in (False, True):
        with place.device() as device:
            _has(device.connect("ann-1", "bob", clean=clean)[3], 0x87)
    with place.device() as device:
        _has(device.connect("ann-1", "ann", clean=False)[2:4], b"\x01\x00")


@step("automatic subscriptions need the rights that a SUBSCRIBE needs")
def automatic_subscriptions(place: Place) -> None:
    with place.device() as device:
        device.connect("bob-1", "bob")
        device.ask('82 # 0001 {} "end" 00')
        rows = place.ctl("subscriptions", "show", "bob-1", "--json")
        _has("open/bob-1" in rows, True)
        _has("secret/all" in rows, False)


@step("events that name other clients are closed to clients")
def closed_events(place: Place) -> None:
    with place.device() as device:
        device.connect("curious", "ann")
        for topic_filter in ("$SYS/brokers/+/clients/#", "$events/#"):
            answer = device.ask(f'82 # 0001 {{}} "{topic_filter}" 00')
            _has((answer[0], answer[-1]), (0x90, 0x87))


@step("of a device that sleeps, a message is stored and waits")
def sleeping_devices(place: Place) -> None:
    with place.device() as device:
        device.connect("sleeps", "ann")
        device.ask('82 # 0001 {} "sleeps/#" 01')
    with place.device() as device:
        device.connect("speaks", "ann")
        _has(device.ask("32 # \"sleeps/1\" 0002 {} 'x'")[0], 0x40)
    row = json.loads(place.ctl("message", "explain", "--topic", "sleeps/1", "--since", "10m", "--json"))
    text = place.ctl("message", "explain", row["message_id"], "--client", "sleeps")
    assert "no subscription" not in text, text
    assert "storage" in text, text


@step("ctl status says whether the node lives, and with --ready whether it is ready")
def status(place: Place) -> None:
    place.ctl("status")
    place.ctl("status", "--ready")


@step("what holds already makes no revision, and going back shows what it would do")
def changes(place: Place) -> None:
    newest = place.ctl("conf", "set", "mqtt.max_inflight=31").splitlines()[-1].removeprefix("revision ")
    assert "no new revision" in place.ctl("conf", "set", "mqtt.max_inflight=31")
    assert "no new revision" in place.ctl("conf", "set", "mqtt.max_mqueue_len=1000")
    before = str(int(newest) - 1)
    text = place.ctl("conf", "rollback", before, "--plan")
    assert "mqtt.max_inflight" in text, text
    assert "nothing is changed" in text, text
    place.ctl("conf", "rollback", before)


@step("a zone shows what it inherits")
def zones(place: Place) -> None:
    place.ctl("conf", "set", "zones.certs.mqtt.max_inflight=7")
    text = place.ctl("conf", "show", "zones.certs.mqtt")
    assert "zones.certs.mqtt.mqueue_store_qos0 = true  # inherited from mqtt.mqueue_store_qos0" in text, text
    place.ctl("conf", "set", "zones.certs=null")


@step("one ban is one ban")
def one_ban(place: Place) -> None:
    place.ctl("banned", "add", "clientid", "noisy-1")
    with place.device() as device:
        _has(device.connect("noisy-1", "ann")[3], 0x8A)
    place.ctl("clients", "show", "noisy-1", code=1)
    assert "1 ban is lifted" in place.ctl("banned", "clear")


@step("conf check tries the data directory")
def data_directories(place: Place) -> None:
    file = place.directory / "other.conf"
    file.write_text('node.name = "other@here"\n')
    text = command("conf", "check", str(file), "--data-dir", str(place.node.data_dir), code=1)
    assert "is used by another node" in text, text
    assert "cannot be written" in command("conf", "check", str(file), "--data-dir", "/proc/nope", code=1)


@step("conf check names what EMQX's settings are here, and knows a mosquitto.conf")
def files_of_others(place: Place) -> None:
    emqx = place.directory / "emqx.conf"
    emqx.write_text('gateway.stomp {}\nlog.file.default { path = "emqx.log" }\n')
    text = command("conf", "check", str(emqx), code=1)
    assert "EMQX" in text, text
    assert "log.file.default" not in text, text
    mosquitto = place.directory / "mosquitto.conf"
    mosquitto.write_text("listener 1883\npersistence true\npassword_file /etc/mosquitto/passwd\n")
    assert "mosquitto" in command("conf", "check", str(mosquitto), code=1)
