"""The reader process: serves stored messages over Arrow Flight, beside the broker's process.

`python -m heliograph.storage.reader --data-dir DIR --bind HOST:PORT` serves the actions `get_streams`, `plan`, `split`
and `info` and reads (`do_get`), whose requests and answers are JSON; `docs/storage.md` describes them. On standard
output it says `ready HOST:PORT`, or `failed` and why, and then `damaged` and a JSON object for each place that it
cannot read. It ends on SIGTERM, and with `--watch-stdin` when its standard input closes, which it does when the process
that holds the other end dies, however it dies.
"""

import argparse
import contextlib
import errno
import json
import logging
import os
import shutil
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa

from heliograph.processes.signals import on_signals
from heliograph.processes.without_pandas import keep_pandas_out
from heliograph.settings.units import is_loopback
from heliograph.storage.columnar.node_databases import databases_path
from heliograph.storage.columnar.secondary import READERS
from heliograph.storage.reader.connection_guard import ConnectionGuard
from heliograph.storage.reader.databases import StorageReader
from heliograph.storage.reader.flight_server import FlightServer
from heliograph.storage.reader.security import ReaderSecurity, ReaderSettingsError
from heliograph.storage.reader.user_rights import RIGHTS, UserRights

_log = logging.getLogger(__name__)

_SHUTDOWN_S: Final = 3.0
_LET_GO_LOOKS: Final = 30
_LOOK_S: Final = 1.0  # a signal that comes just before a wait begins does not end it, so no wait is for ever
_SETTINGS_BYTES_MAX: Final = 1 << 24


def parse_bind(text: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`; an IPv6 host stands in brackets."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{text!r} is not HOST:PORT; for example 127.0.0.1:8815")
    return host.strip("[]"), int(port)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the reader process until it is stopped; returns its exit code."""
    parser = argparse.ArgumentParser(prog="heliograph.storage.reader", description="Serve stored messages over Flight.")
    parser.add_argument("--data-dir", type=Path, required=True, help="the data directory of the node")
    parser.add_argument("--bind", required=True, help="HOST:PORT to listen on; port 0 takes a free one")
    parser.add_argument("--watch-stdin", action="store_true", help="end when standard input closes")
    parser.add_argument("--settings-stdin", action="store_true", help="read tokens and TLS from standard input first")
    options = parser.parse_args(arguments)
    keep_pandas_out()
    security = ReaderSecurity()
    if options.settings_stdin:
        settings = _first_line_of_input()
        if not settings:  # the node has given its start up
            return 0
        security = ReaderSecurity.from_json(settings)
    stop, rights = threading.Event(), UserRights()
    on_signals({signal.SIGTERM: stop.set, signal.SIGINT: stop.set})
    if options.watch_stdin:
        # Ctrl-C in a terminal reaches the parent too, which then stops its reader in its own time.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        threading.Thread(target=_follow_input, args=(stop, rights), daemon=True).start()
    scratch = databases_path(options.data_dir) / READERS / str(os.getpid())
    try:
        scratch.mkdir(parents=True, exist_ok=True)
        _remove_left_behind(scratch.parent)
        return _serve(options.data_dir, options.bind, (security, rights), scratch, stop)
    except OSError as error:
        _say(f"failed cannot use {scratch}: {error.strerror}")
        return 1
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _serve(
    data_dir: Path, bind: str, access: tuple[ReaderSecurity, UserRights], scratch: Path, stop: threading.Event
) -> int:
    security, rights = access
    reader = StorageReader(data_dir, scratch, lambda damage: _say(f"damaged {json.dumps(damage)}"))
    try:
        host, port = parse_bind(bind)
        _check_bind(host, port)
        server = FlightServer(reader, (host, port), security, rights)
    except OSError as error:
        why = "another program listens there" if error.errno == errno.EADDRINUSE else error.strerror
        _say(f"failed cannot listen on {bind}: {why}")
        return 1
    except ReaderSettingsError as error:
        _say(f"failed {error.problem}")
        return 1
    except (ValueError, pa.ArrowException) as error:
        _say(f"failed cannot listen on {bind}: {error}")
        return 1
    ConnectionGuard(server.port).start()
    if security.tokens and not security.certfile and not is_loopback(host):
        _log.warning("tokens for the storage reader cross the network in the clear: enable durable_storage.flight.tls")
    _say(f"ready {f'[{host}]' if ':' in host else host}:{server.port}")
    looks = 0
    while not stop.wait(_LOOK_S):
        looks += 1
        if looks % _LET_GO_LOOKS == 0:
            reader.let_go()
    # Reads that a client does not take any more would keep the server from stopping.
    watchdog = threading.Timer(_SHUTDOWN_S, _end_at_once, args=(scratch,))
    watchdog.daemon = True
    watchdog.start()
    server.shutdown()
    watchdog.cancel()
    return 0


def _check_bind(host: str, port: int) -> None:
    """Bind the address for a moment: what gRPC says of one that it cannot have does not tell why."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(address)


def _remove_left_behind(path: Path) -> None:
    """Remove what readers that were killed could not remove themselves."""
    for entry in path.iterdir():
        if entry.name.isdigit() and not Path("/proc", entry.name).exists():
            shutil.rmtree(entry, ignore_errors=True)


def _say(line: str) -> None:
    with contextlib.suppress(BrokenPipeError):  # the parent has died; this process ends too
        sys.stdout.write(" ".join(line.split("\n")) + "\n")
        sys.stdout.flush()


def _first_line_of_input() -> str:
    line = b""
    while not line.endswith(b"\n") and len(line) < _SETTINGS_BYTES_MAX and (read := os.read(0, 65_536)):
        line += read
    return line.decode()


def _follow_input(stop: threading.Event, rights: UserRights) -> None:
    """Take the rights of users as the node sends them, and stop when the input ends."""
    line = b""
    while read := os.read(0, 65_536):
        *lines, line = (line + read).split(b"\n")
        for one in lines:
            if one.startswith(RIGHTS.encode()):
                rights.use(one.decode())
    stop.set()


def _end_at_once(scratch: Path) -> None:
    shutil.rmtree(scratch, ignore_errors=True)
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
