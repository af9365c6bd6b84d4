"""A managed node of a checkout, with clients, for the recording: only its public doors are used."""

import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

import httpx
import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

KEYS: Final = {role: f"key-{role}" for role in ("administrator", "operator", "viewer", "publisher")}
SECRET: Final = "secret-of-keys-1"
_SERVED: Final = re.compile(r"the HTTP API is served at (http://[^\s,]+)[\s,]")
_WAIT_S: Final = 100.0
_START: Final = "import sys; from heliograph.cli.main import main; sys.exit(main())"


def wait_for(condition: Callable[[], object], what: str) -> None:
    """Wait until a condition holds; ends the program when it does not come to hold."""
    end = time.monotonic() + _WAIT_S
    while not condition():
        if time.monotonic() > end:
            sys.exit(f"not within {_WAIT_S:g} s: {what}")
        time.sleep(0.02)


@dataclass(frozen=True)
class Outcome:
    """What a command came to."""

    code: int
    out: str
    err: str


class RecordedNode:
    """A node of a checkout, its API, its command line and its clients; a context, owned by the program.

    Args:
        source: The checkout.
        directory: Where it keeps its files.
        file: HOCON of the node's file.
        settings: HOCON of the lowest layer.

    Attributes:
        ports: Free ports by name, which the settings name as `<mqtt>` and so on.
        api: A client of its API: an administrator's key, or the user that was logged in last.
    """

    def __init__(self, source: Path, directory: Path, file: str, settings: str) -> None:
        self.directory = directory
        self.ports = _free_ports("mqtt", "flight", "http", "second", "third", "silent")
        keys = directory / "api_keys"
        keys.write_text("".join(f"{name}:{SECRET}:{role}\n" for role, name in KEYS.items()))
        keys.chmod(0o600)
        self.data_dir = directory / "data"
        self._config = directory / "heliograph.conf"
        named = {**self.ports, "dir": directory}
        for path, text in ((self._config, file), (directory / "base.hocon", settings)):
            path.write_text(re.sub(r"<(\w+)>", lambda found: str(named[found[1]]), text))
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HELIOGRAPH_")}
        environment |= {"PYTHONPATH": str(source / "src"), "PYTHONUNBUFFERED": "1", "COLUMNS": "120", "TZ": "UTC"}
        self._environment = environment
        self._log = directory / "node.log"
        self._clients: list[paho.Client] = []
        self._silent = socket.create_server(("127.0.0.1", self.ports["silent"]))  # accepts, and answers nothing
        self._node: subprocess.Popen[str]
        self._commands: subprocess.Popen[str]
        self.api: httpx.Client

    def __enter__(self) -> Self:
        with self._log.open("w") as log:
            self._node = self._begin(["-c", _START, "start", "--config", str(self._config)], log)
        assert self._node.stdout is not None
        if "tcp" not in (line := self._node.stdout.readline()):
            sys.exit(f"no ready line but {line!r}: {self._log.read_text()}")
        # A checkout from before the program may not have it: only the command line is of the checkout.
        self._commands = self._begin([str(Path(__file__).with_name("ctl_server.py"))], None)
        wait_for(lambda: _SERVED.search(self._log.read_text()), "the HTTP API is served")
        self.api = self.client((KEYS["administrator"], SECRET))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for client in self._clients:
            client.disconnect()
            client.loop_stop()
        self.api.close()
        self._silent.close()
        for process in (self._commands, self._node):
            process.send_signal(signal.SIGTERM)
            process.wait(60)
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()

    @property
    def log_text(self) -> str:
        """What it has logged so far."""
        return self._log.read_text()

    def _begin(self, arguments: list[str], log: IO[str] | None) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [sys.executable, *arguments],
            stdin=pipe,
            stdout=pipe,
            stderr=log,
            text=True,
            env=self._environment,
            cwd=self.directory,
        )

    def client(self, auth: tuple[str, str] | None, headers: dict[str, str] | None = None) -> httpx.Client:
        """A client of the HTTP API, which the caller closes."""
        url = f"http://127.0.0.1:{self.ports['http']}"
        return httpx.Client(base_url=f"{url}/api/v5", auth=auth, timeout=_WAIT_S, headers=headers)

    def log_in(self, username: str, password: str) -> None:
        """Log in: `api` is that user from then on."""
        token = self.api.post("/login", json={"username": username, "password": password}).json()["token"]
        self.api.close()
        self.api = self.client(None, {"authorization": f"Bearer {token}"})

    def command(self, words: list[str], stdin: str = "") -> Outcome:
        """Run `heliograph` with some words."""
        assert self._commands.stdin is not None
        assert self._commands.stdout is not None
        self._commands.stdin.write(json.dumps({"argv": words, "stdin": stdin}) + "\n")
        self._commands.stdin.flush()
        if not select.select([self._commands.stdout], [], [], _WAIT_S)[0]:
            sys.exit(f"no end of heliograph {' '.join(words)}")
        return Outcome(**json.loads(self._commands.stdout.readline()))

    def connect(
        self,
        clientid: str,
        username: str = "",
        *,
        version: int = 5,
        expiry_s: int = 0,
        receive_maximum: int = 0,
        acknowledges: bool = True,
        password: str = "",
    ) -> paho.Client:
        """A client that is let in; it leaves at the end."""
        client = paho.Client(
            CallbackAPIVersion.VERSION2,
            clientid,
            protocol=MQTTProtocolVersion(version),
            manual_ack=not acknowledges,
            reconnect_on_failure=False,
        )
        properties = None
        if version == MQTTProtocolVersion.MQTTv5:
            properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]  # paho has no types there
            properties.SessionExpiryInterval = expiry_s
            if receive_maximum:
                properties.ReceiveMaximum = receive_maximum
        if username:
            client.username_pw_set(username, password or None)
        client.connect("127.0.0.1", self.ports["mqtt"], 3600, properties=properties)
        client.loop_start()
        self._clients.append(client)
        wait_for(client.is_connected, f"{clientid} is let in")
        return client


def subscribe(client: paho.Client, topic: str, qos: int = 0) -> None:
    """Subscribe, and wait for the acknowledgement."""
    _acknowledged(client, "on_subscribe", lambda: client.subscribe(topic, qos))


def publish(client: paho.Client, topic: str, payload: str, qos: int = 1, *, retain: bool = False) -> None:
    """Publish, and wait for the acknowledgement."""
    _acknowledged(client, "on_publish", lambda: client.publish(topic, payload, qos, retain))


def _acknowledged(client: paho.Client, event: str, act: Callable[[], Any]) -> None:
    done = threading.Event()
    setattr(client, event, lambda *_: done.set())
    act()
    if not done.wait(_WAIT_S):
        sys.exit(f"no acknowledgement: {event}")


def _free_ports(*names: str) -> dict[str, int]:
    """Free ports of five digits: columns of tables have the same width each time."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in names]
    ports = {name: one.getsockname()[1] for name, one in zip(names, sockets, strict=True)}
    for one in sockets:
        one.close()
    return ports
