"""The live path: from a publish to the row in a Parquet table that any reader sees.

A node and `heliograph pipeline run` with one rule and a Parquet sink are started as a user starts them; 20 clients
publish at a steady rate. Each payload says when it was published, and a file of a table is seen from the moment at
which it is renamed into it. Printed are the percentiles of the time between the two, after a while of warming up; the
target is a p99 of at most 3 seconds with a trigger of 1 second.

    python benchmarks/live_path.py [--rate N] [--seconds N] [--trigger TIME]
"""

import argparse
import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.findings import checked

_HELIOGRAPH: Final = Path(sys.executable).with_name("heliograph")
_TARGET_S: Final = 3.0
_CLIENTS: Final = 20
_TURNS_PER_S: Final = 50
_CONNECT_KEEPALIVE_S: Final = 600
_DRAIN_S: Final = 15
_READY_S: Final = 60

_RULES: Final = """
rules {
  live {
    sql = "SELECT payload.at AS at, payload.n AS n FROM \\"live/#\\""
    sink { type = parquet, path = live, columns { at = long, n = long } }
  }
}
"""


async def publish(port: int, rate: int, seconds: float) -> int:
    """Publish at a steady rate over all clients; return how many messages were sent."""
    connections = [await _connect(port, number) for number in range(_CLIENTS)]
    each = max(1, rate // (_CLIENTS * _TURNS_PER_S))
    sent = 0
    begin = time.monotonic()
    for turn in range(int(seconds * _TURNS_PER_S)):
        for number, writer in enumerate(connections):
            now = time.time_ns() // 1000
            writer.write(b"".join(_packet(number, now, sent + index) for index in range(each)))
            sent += each
        late = begin + (turn + 1) / _TURNS_PER_S - time.monotonic()
        await asyncio.sleep(max(0.0, late))
    for writer in connections:
        await writer.drain()
        writer.close()
    return sent


async def _connect(port: int, number: int) -> asyncio.StreamWriter:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    clientid = b"live-%d" % number
    body = b"\x00\x04MQTT\x04\x02" + _CONNECT_KEEPALIVE_S.to_bytes(2) + len(clientid).to_bytes(2) + clientid
    writer.write(bytes([0x10, len(body)]) + body)
    answer = await reader.readexactly(4)
    if answer[3]:
        raise SystemExit(f"the broker refuses a connection with {answer[3]}")
    return writer


def _packet(client: int, now_us: int, number: int) -> bytes:
    topic = b"live/%d" % client
    body = len(topic).to_bytes(2) + topic + b'{"at": %d, "n": %d}' % (now_us, number)
    return bytes([0x30, len(body)]) + body


def latencies(table: Path, since_us: int) -> list[float]:
    """Seconds until each row was seen, of rows published after a time."""
    found: list[float] = []
    for file in table.rglob("*.parquet"):
        # Renaming changes nothing but this time.
        seen_us = file.stat().st_ctime_ns // 1000
        published = pq.read_table(file, columns=["at"], schema=pa.schema([("at", pa.int64())])).column("at")
        found += [(seen_us - at) / 1e6 for at in published.to_pylist() if at is not None and at >= since_us]
    return sorted(found)


def _free_ports(count: int) -> list[int]:
    servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [server.getsockname()[1] for server in servers]
    for server in servers:
        server.close()
    return ports


def _await_port(port: int, process: "subprocess.Popen[bytes]") -> None:
    end = time.monotonic() + _READY_S
    while time.monotonic() < end and process.poll() is None:
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise SystemExit(f"{process.args!r} does not listen on {port}")


def measure(directory: Path, rate: int, seconds: float, warm_s: float, trigger: str) -> bool:
    """Run it and print the result; return whether the target is met."""
    mqtt, flight = _free_ports(2)
    config, rules, output = directory / "node.conf", directory / "pipeline.hocon", directory / "output"
    config.write_text(
        f'listeners.tcp.default.bind = "127.0.0.1:{mqtt}"\n'
        f'durable_storage.flight.bind = "127.0.0.1:{flight}"\nmanagement.enable = false\nlog.console.level = warning\n'
    )
    rules.write_text(_RULES)
    node = subprocess.Popen([_HELIOGRAPH, "start", "--config", config, "--data-dir", directory / "data"])
    pipeline: subprocess.Popen[bytes] | None = None
    try:
        _await_port(mqtt, node)
        _await_port(flight, node)
        command: list[str | Path] = [_HELIOGRAPH, "pipeline", "run", rules, "--output", output]
        command += ["--checkpoint", directory / "checkpoint"]
        options = ["--endpoint", f"127.0.0.1:{flight}", "--master", "local[2]", "--trigger", trigger]
        with (directory / "pipeline.log").open("wb") as log:
            pipeline = subprocess.Popen([*command, *options], stdout=log, stderr=log, env={**os.environ})
        asyncio.run(publish(mqtt, max(_CLIENTS * _TURNS_PER_S, rate // 4), warm_s))
        measured_from = time.time_ns() // 1000
        sent = asyncio.run(publish(mqtt, rate, seconds))
        took = time.time() - measured_from / 1e6
        found = latencies(output / "live", measured_from)
        end = time.monotonic() + _DRAIN_S
        while len(found) < sent and time.monotonic() < end:
            time.sleep(0.5)
            found = latencies(output / "live", measured_from)
    finally:
        for process in (pipeline, node):
            if process is not None:
                process.send_signal(signal.SIGTERM)
                process.wait(60)
    if len(found) < sent:
        raise SystemExit(
            f"{sent - len(found):,} of {sent:,} messages never came to the table:\n"
            + (directory / "pipeline.log").read_text()[-2000:]
        )
    p50, p99 = found[len(found) // 2], found[len(found) * 99 // 100]
    is_met = p99 <= _TARGET_S
    print(
        f"live   {sent / took:,.0f} messages/s, {sent:,} messages: p50 {p50:.2f} s, p99 {p99:.2f} s, "
        f"longest {found[-1]:.2f} s; target p99 at most {_TARGET_S:.0f} s: {'met' if is_met else 'missed'}"
    )
    return is_met


def main() -> int:
    """Run the benchmark; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rate", type=int, default=20_000, help="messages a second")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--warm", type=float, default=25, help="seconds at a quarter of the rate before")
    parser.add_argument("--trigger", default="1s", help="pace of micro-batches")
    parser.add_argument("--check", action="store_true", help="exit 1 if the target is missed")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="heliograph-live-") as name:
        is_met = measure(Path(name), args.rate, args.seconds, args.warm, args.trigger)
    return checked(args.check, [] if is_met else ["p99"])


if __name__ == "__main__":
    sys.exit(main())
