"""`heliograph start`: one node in the foreground, until SIGTERM or Ctrl-C."""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import uvloop

from heliograph._pure import is_compiled
from heliograph.cli.usage import Actions
from heliograph.config.layers import Layers, Sources
from heliograph.config.loading import config_of
from heliograph.config.log import LogTargetConfig
from heliograph.config.settings import Config
from heliograph.observe.log_output import ConsoleTarget, LogOutput, open_targets
from heliograph.storage.reader.process import give_up, launch_reader

if TYPE_CHECKING:
    from heliograph.node import Node


_log = logging.getLogger(__name__)
Loaded: TypeAlias = tuple[Config, Layers]


def add_parser(subparsers: Actions) -> None:
    """Add `start` to the command line."""
    parser = subparsers.add_parser(
        "start",
        help="run a node in the foreground",
        description=(
            "Run a node in the foreground until SIGTERM or Ctrl-C. SIGUSR1 writes its counters into the log; SIGHUP "
            "makes it read its configuration and certificates again, and apply what it can while it runs."
        ),
    )
    parser.add_argument("--config", metavar="FILE", type=Path, help="a HOCON file; without it every default holds")
    parser.add_argument(
        "--base", metavar="FILE", type=Path, help="a HOCON file below all others (default: base.hocon beside --config)"
    )
    parser.add_argument("--data-dir", metavar="DIR", help="where data is kept (node.data_dir; default ./data)")


def run(args: argparse.Namespace) -> int:
    """Run the node; 0 after an orderly end, 1 when it cannot start."""
    output = LogOutput()
    output.use([ConsoleTarget(LogTargetConfig())])  # reading the configuration may warn
    logging.getLogger().addHandler(output)
    sources = Sources(args.config, os.environ, _overrides(args), args.base)
    try:
        layers = sources.read(_recover)
        config = config_of(layers)
        output.use(open_targets(config.log, Path(config.node.data_dir)))
    except Exception as error:
        if not hasattr(error, "code"):
            raise
        return _fail(error)
    _allow_open_files()
    if not is_compiled() and os.environ.get("HELIOGRAPH_PURE") != "1":
        _log.warning(
            "the protocol packages run uncompiled, several times slower: install a C compiler and Python's headers, "
            "then install heliograph again from its sources (HELIOGRAPH_PURE=1 says that it is wanted so)"
        )
    try:
        return uvloop.run(_serve_beside_reader(config, partial(_load, layers)))
    except Exception as error:
        if not all(hasattr(one, "code") for one in _single(error)):
            raise
        return _fail(error)


def _fail(error: Exception) -> int:
    for one in _single(error):
        print(f"heliograph: [{getattr(one, 'code', '')}] {one}", file=sys.stderr)
    return 1


def _single(error: Exception) -> list[Exception]:
    """The exceptions of a group, or the exception itself."""
    if isinstance(error, ExceptionGroup):
        return [one for inner in error.exceptions for one in _single(inner)]
    return [error]


def _overrides(args: argparse.Namespace) -> dict[str, str]:
    return {} if args.data_dir is None else {"node.data_dir": args.data_dir}


def _recover(data_dir: Path) -> None:
    """Mend what a process left that was killed while its configuration changed."""
    if (data_dir / "configs").is_dir():
        from heliograph.config_changes.files import recover

        recover(data_dir)


def _load(layers: Layers) -> Loaded:
    """The configuration, with all that only the languages in it can find wrong, and what it is made of."""
    from heliograph.node.checked_config import checked_config

    return checked_config(layers, layers.sources.environ), layers


class _Signals:
    """What signals have asked for, from before the node is imported until its end."""

    def __init__(self) -> None:
        self.stop, self.reload = asyncio.Event(), asyncio.Event()
        self._starting: asyncio.Task[None] | None = None
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._ask_to_stop)
        loop.add_signal_handler(signal.SIGUSR1, lambda: None)
        loop.add_signal_handler(signal.SIGHUP, self.reload.set)  # parts that have yet to start would not hear of it

    def begin(self, node: Node) -> asyncio.Task[None]:
        """Start a node, and stop it where that was asked for meanwhile."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, node.log_statistics)
        self._starting = asyncio.create_task(node.start(), name="start")
        if self.stop.is_set():
            self._starting.cancel()
        return self._starting

    def _ask_to_stop(self) -> None:
        if not self.stop.is_set():
            self.stop.set()
            if self._starting is not None:
                self._starting.cancel()


async def _serve_beside_reader(config: Config, load: Callable[[], Loaded]) -> int:
    """Launch the storage reader before the node is imported: each of the two takes a third of a second for that."""
    asked, flight = _Signals(), config.durable_storage.flight
    if not flight.enable:
        return await _serve(load, asked, None)
    os.umask(0o077)  # as the node has it
    launched = await launch_reader(Path(config.node.data_dir), str(flight.bind))
    try:
        return await _serve(load, asked, launched)
    finally:
        await give_up(launched)


async def _serve(load: Callable[[], Loaded], asked: _Signals, reader_process: asyncio.subprocess.Process | None) -> int:
    gc.disable()  # as while `heliograph.cli.main` loads modules
    try:
        config, layers = load()
        from heliograph.node import Node
    finally:
        gc.enable()
    node, manager = Node(config, reader_process, layers), ServiceManager()
    try:
        await asked.begin(node)
        if asked.reload.is_set():
            asked.reload.clear()
            await node.read_again()
        reloading = asyncio.create_task(_reload_when_asked(node, asked.reload, manager), name="reload")
        print(f"{node.ready_line()}{node.dashboard_line()}", flush=True)
        manager.tell_ready(node.ready_line())
        node.begin_management()
        await asked.stop.wait()
        reloading.cancel()
    except asyncio.CancelledError:
        if not asked.stop.is_set():
            raise
        _log.info("stopped before it was ready, as it was asked to")
    finally:
        manager.tell_stopping()
        await node.stop()
    return 0


class ServiceManager:
    """The service manager of this process; owned by its command."""

    def __init__(self) -> None:
        # Taken out of the environment: child processes are not to speak for this one.
        self._address = os.environ.pop("NOTIFY_SOCKET", "")

    def tell_ready(self, status: str) -> None:
        """It works, from its start or after a reload; the status is for people."""
        self._send(f"READY=1\nSTATUS={status}")

    def tell_reloading(self) -> None:
        """It reads its configuration again; `tell_ready` ends that."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def tell_stopping(self) -> None:
        """It comes to its end."""
        self._send("STOPPING=1\nSTATUS=stopping")

    def _send(self, text: str) -> None:
        if not self._address:
            return
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.setblocking(False)
            sender.sendto(text.encode(), address)


async def _reload_when_asked(node: Node, asked: asyncio.Event, manager: ServiceManager) -> None:
    while True:
        await asked.wait()
        asked.clear()
        manager.tell_reloading()
        await node.read_again()
        manager.tell_ready(node.ready_line())


def _allow_open_files() -> None:
    # Each connection is an open file, and systems begin with a low limit that a process may raise by itself.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
