"""The brokers under test: how each is configured and started, and what its process costs. No load, no figures.

What all runs of a broker share stands in heliograph.conf, mosquitto.conf and nats.conf beside this file.
"""

import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_STOP_TIMEOUT_S: Final = 20.0
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_HERE: Final = Path(__file__).parent

# A process of its own, which other brokers do not have; benchmarks of it start it.
_WITHOUT_MANAGEMENT: Final = {"HELIOGRAPH_MANAGEMENT__ENABLE": "false"}
_STORING: Final = 'durable_storage.messages.topics = ["#"]\n'
_SECURED: Final = '{{ bind = "127.0.0.1:0", ssl_options {{ certfile = "{cert}", keyfile = "{key}" }} }}\n'
_LISTENERS: Final = {
    "tcp": "",
    "tls": f"listeners.ssl.default {_SECURED}",
    "ws": 'listeners.ws.default.bind = "127.0.0.1:0"\n',
    "wss": f"listeners.wss.default {_SECURED}",
}
_PLACES: Final = {"tcp": r"tcp://[^ ,]*", "tls": r"(?:ssl|tls)://[^ ,]*", "ws": r"ws://[^ ,]*", "wss": r"wss://[^ ,]*"}


class BrokerError(Exception):
    """A broker did not start, or ended before it was asked to."""


@dataclass(frozen=True)
class Kind:
    """One way to run one broker.

    Args:
        name: As the table calls it.
        product: Which broker it is: heliograph, mosquitto, nats or nobody.
        storing: Whether it keeps every message on disk.
        transport: What the load comes over: tcp, tls, ws or wss.
        environment: Variables to set for its process.
        settings: Lines for its configuration file.
        is_guarded: Whether it authorizes everything by a callback that allows all (benchmarks/guarded_node.py).
    """

    name: str
    product: str = "heliograph"
    storing: bool = False
    transport: str = "tcp"
    environment: Mapping[str, str] = field(default_factory=dict)
    settings: str = ""
    is_guarded: bool = True


HELIOGRAPH: Final = Kind("heliograph")
STORING: Final = Kind("heliograph, storing", storing=True)
PURE: Final = Kind("heliograph, pure Python", environment={"HELIOGRAPH_PURE": "1"})
TLS: Final = Kind("heliograph, TLS", transport="tls")
WEBSOCKET: Final = Kind("heliograph, WebSocket", transport="ws")
MOSQUITTO: Final = Kind("mosquitto", "mosquitto")
# By default it lets the system gather small packets, which costs it latency and spares it system calls.
PROMPT_MOSQUITTO: Final = Kind("mosquitto, no delay", "mosquitto", settings="set_tcp_nodelay true\n")
DURABLE: Final = Kind("heliograph", storing=True, settings="durable_sessions.enable = true\n")
# It writes its whole database whenever anything has changed since, and acknowledges without waiting for that.
SAVING_MOSQUITTO: Final = Kind(
    "mosquitto, saving each change",
    "mosquitto",
    storing=True,
    settings="autosave_on_changes true\nautosave_interval 1\n",
)
# The same once a second: what a second has brought is lost in a crash.
TIMED_MOSQUITTO: Final = Kind(
    "mosquitto, saving each second", "mosquitto", storing=True, settings="autosave_interval 1\n"
)
# It syncs every two minutes, whatever it has acknowledged; its 2.9 cannot be asked to do so more often.
NATS: Final = Kind("NATS JetStream", "nats", storing=True)
NOBODY: Final = Kind("nobody", "nobody")  # benchmarks/null_peer.py


def another_tree(folder: Path) -> Kind:
    """Heliograph from another checkout, as it was before a change."""
    return Kind("before", environment={"PYTHONPATH": str((folder / "src").resolve())})


def mosquitto_program() -> str | None:
    """Where mosquitto is installed; it often is where only root's PATH leads."""
    return _daemon("mosquitto")


def nats_program() -> str | None:
    """Where nats-server is installed."""
    return _daemon("nats-server")


class Broker:
    """A running broker process; a context manager that stops it.

    Args:
        kind: Which broker, and how.
        folder: Where its configuration, data and log go; on a disk, if it stores.
        core: The core it is bound to, None to leave that to the system.
    """

    def __init__(self, kind: Kind, folder: Path, core: int | None) -> None:
        self.kind = kind
        self.port = 0
        self.ready_seconds = 0.0
        self._folder = folder
        self._core = core
        self._process: subprocess.Popen[str]

    @property
    def data(self) -> Path:
        """Where it keeps what it stores; another broker of the same folder goes on with that."""
        return self._folder / "data"

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def __enter__(self) -> "Broker":
        self._folder.mkdir(parents=True, exist_ok=True)
        start = {
            "mosquitto": self._start_mosquitto,
            "nats": self._start_nats,
            "nobody": self._start_nobody,
        }
        began = time.perf_counter()
        try:
            start.get(self.kind.product, self._start_heliograph)()
        except BaseException:
            self._stop()
            raise
        self.ready_seconds = time.perf_counter() - began
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _stop(self) -> None:
        if not hasattr(self, "_process"):
            return
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def kill(self) -> None:
        """End it as a crash would, and wait until it is gone."""
        self._process.kill()
        self._process.wait()

    def read_bytes(self) -> int:
        """What the broker's own process has had fetched from disks so far."""
        found = re.search(r"^read_bytes: (\d+)", Path(f"/proc/{self._process.pid}/io").read_text(), re.MULTILINE)
        if found is None:
            raise BrokerError("the system does not count what a process reads from disks")
        return int(found[1])

    def check(self) -> None:
        """Raises BrokerError if the broker has ended."""
        if self._process.poll() is not None:
            raise BrokerError(f"{self.kind.name} ended with exit code {self._process.returncode}{self._log()}")

    def cpu_seconds(self) -> float:
        """CPU time of the broker's own process so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S

    def memory_bytes(self) -> int:
        """Resident memory of the broker's own process."""
        found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{self._process.pid}/status").read_text())
        if found is None:
            raise BrokerError(f"{self.kind.name} has no resident memory: it has ended{self._log()}")
        return int(found[1]) * 1024

    def ask_for_statistics(self) -> None:
        """Have Heliograph write its counters into its log, which must let entries of level info through."""
        self._process.send_signal(signal.SIGUSR1)

    def log_text(self) -> str:
        """What the broker has logged so far."""
        return (self._folder / "log").read_text()

    def _start_heliograph(self) -> None:
        listener = _LISTENERS[self.kind.transport].format(**_certificate(self._folder.parent))
        config = self._folder / "heliograph.conf"
        storing = _STORING if self.kind.storing else ""
        config.write_text((_HERE / "heliograph.conf").read_text() + listener + storing + self.kind.settings)
        program = [str(_HERE / "guarded_node.py")] if self.kind.is_guarded else ["-m", "heliograph.cli.main"]
        command = [sys.executable, *program, "start", "--config", str(config)]
        line = self._launch(
            [*command, "--data-dir", str(self._folder / "data")], stdout=True, is_ready=lambda line: "is ready" in line
        )
        found = re.search(rf"mqtt {_PLACES[self.kind.transport]}:(\d+)", line)
        if found is None:
            raise BrokerError(f"the ready line of {self.kind.name} names no {self.kind.transport} listener: {line}")
        self.port = int(found[1])

    def _start_mosquitto(self) -> None:
        program = mosquitto_program()
        if program is None:
            raise BrokerError("mosquitto is not installed")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        config = self._folder / "mosquitto.conf"
        settings = (_HERE / "mosquitto.conf").read_text() + self.kind.settings
        if self.kind.storing:
            self.data.mkdir(exist_ok=True)
            settings += f"persistence true\npersistence_location {self.data.resolve()}/\n"
        config.write_text(f"{settings}listener {self.port} 127.0.0.1\n")
        self._launch([program, "-c", str(config)], stdout=False, is_ready=lambda line: "running" in line)

    def _start_nats(self) -> None:
        program = nats_program()
        if program is None:
            raise BrokerError("nats-server is not installed")
        config = self._folder / "nats.conf"
        settings = (_HERE / "nats.conf").read_text() + self.kind.settings
        config.write_text(f'{settings}jetstream {{ store_dir: "{self.data.resolve()}" }}\n')
        said: list[str] = []

        def is_ready(line: str) -> bool:
            said.append(line)
            return "Server is ready" in line

        self._launch([program, "-c", str(config)], stdout=False, is_ready=is_ready)
        found = re.search(r"MQTT clients on mqtt://[^ ]*:(\d+)", "\n".join(said))
        if found is None:
            raise BrokerError(f"nats-server names no MQTT listener: {said}")
        self.port = int(found[1])

    def _start_nobody(self) -> None:
        line = self._launch([sys.executable, str(_HERE / "null_peer.py")], stdout=True, is_ready=str.isdecimal)
        self.port = int(line)

    def _launch(self, command: list[str], stdout: bool, is_ready: Callable[[str], bool]) -> str:
        """Start the process, and wait for the line that says that it serves."""
        with (self._folder / "log").open("w") as log:
            self._process = subprocess.Popen(
                pinned(command, self._core),
                stdout=subprocess.PIPE if stdout else log,
                stderr=log if stdout else subprocess.PIPE,
                env={**os.environ, **_WITHOUT_MANAGEMENT, **self.kind.environment},
                text=True,
            )
        stream = self._process.stdout if stdout else self._process.stderr
        assert stream is not None
        for line in stream:
            if is_ready(line.strip()):
                return line
        raise BrokerError(f"{self.kind.name} did not start (exit code {self._process.wait()}){self._log()}")

    def _log(self) -> str:
        text = self.log_text().strip()
        return f":\n{text[-2000:]}" if text else ""


def process_tree() -> dict[int, list[int]]:
    """The children of each process."""
    tree: dict[int, list[int]] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(file.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        tree.setdefault(parent, []).append(int(file.parent.name))
    return tree


def below(pid: int, tree: Mapping[int, list[int]]) -> list[int]:
    """The children of a process, and theirs."""
    children = tree.get(pid, [])
    return children + [each for child in children for each in below(child, tree)]


def cpu_seconds(pid: int) -> float:
    """CPU time of a process, and of those that it has waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(ticks) for ticks in fields[11:15]) / _TICKS_PER_S


def tree_cpu_seconds(pid: int) -> float:
    """CPU time of a process and of all below it."""
    return sum(map(cpu_seconds, (pid, *below(pid, process_tree()))))


def _daemon(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")


def pinned(command: list[str], core: int | None) -> list[str]:
    """The command, bound to a core where there is one to bind to and a program to do it."""
    taskset = shutil.which("taskset")
    return command if core is None or taskset is None else [taskset, "-c", str(core), *command]


def allow_open_files() -> int:
    """Let this process, and what it starts, open as many files as it may; how many that is."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    return limit


def own_core() -> tuple[int | None, int | None]:
    """The same as `cores`; this process, and what it starts but the broker, stays on that for the load."""
    broker_core, load_core = cores()
    if load_core is not None:
        os.sched_setaffinity(0, {load_core})
    return broker_core, load_core


def cores() -> tuple[int | None, int | None]:
    """A core for the broker and another for the load; nothing where there is only one."""
    available = sorted(os.sched_getaffinity(0))
    return (available[0], available[1]) if len(available) > 1 else (None, None)


def _certificate(folder: Path) -> dict[str, Path]:
    """A self-signed certificate and its key, made once per folder."""
    key, cert = folder.resolve() / "key.pem", folder.resolve() / "cert.pem"
    if not cert.exists():
        openssl = shutil.which("openssl")
        if openssl is None:
            return {"key": key, "cert": cert}  # the figures of TLS will say that it is missing
        curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        files = ["-keyout", str(key), "-out", str(cert)]
        subprocess.run(
            [openssl, "req", "-x509", *curve, "-days", "2", "-subj", "/CN=localhost", *files],
            check=True,
            capture_output=True,
        )
    return {"key": key, "cert": cert}
