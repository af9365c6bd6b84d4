"""`heliograph start`: one node in the foreground, until SIGTERM or Ctrl-C."""

import argparse
import asyncio
import logging
import os
import resource
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import uvloop

from heliograph._pure import is_compiled
from heliograph.access.bootstrap import BootstrapFileError
from heliograph.cli.usage import Actions
from heliograph.config import Config, ConfigError, load_config
from heliograph.message_policies import MessagePolicyError
from heliograph.message_policies.faults import policy_faults
from heliograph.node import Node, NodeError
from heliograph.node.announcements import tell_refused
from heliograph.rules.client_attrs import client_attribute_faults
from heliograph.rules.engine import RuleEngineError
from heliograph.rules.engine.faults import rule_faults
from heliograph.rules.errors import RuleError
from heliograph.rules.schemas.configured import schema_faults
from heliograph.rules.schemas.settings import SchemaSourceError
from heliograph.storage.errors import StorageError
from heliograph.transport.errors import ListenerError

_log = logging.getLogger(__name__)


def add_parser(subparsers: Actions) -> None:
    """Add `start` to the command line."""
    parser = subparsers.add_parser(
        "start",
        help="run a node in the foreground",
        description=(
            "Run a node in the foreground until SIGTERM or Ctrl-C. SIGUSR1 writes its counters into the log; SIGHUP "
            "has it read its configuration and certificates again, and apply what it can while it runs."
        ),
    )
    parser.add_argument("--config", metavar="FILE", type=Path, help="a HOCON file; without it every default holds")
    parser.add_argument("--data-dir", metavar="DIR", help="where data is kept (node.data_dir; default ./data)")


def run(args: argparse.Namespace) -> int:
    """Run the node; 0 after an orderly end, 1 when it cannot start."""
    # Before the level is known: reading the configuration may warn.
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    try:
        config = _load(args)
    except ConfigError as error:
        print(f"heliograph: [{error.code}] {error}", file=sys.stderr)
        return 1
    logging.getLogger().setLevel(config.log.level.upper())
    _allow_open_files()
    if not is_compiled() and os.environ.get("HELIOGRAPH_PURE") != "1":
        _log.warning(
            "the protocol packages run uncompiled, several times slower: install a C compiler and Python's headers, "
            "then install heliograph again from its sources (HELIOGRAPH_PURE=1 says that it is wanted so)"
        )
    try:
        return uvloop.run(_serve(config, partial(_load, args)))
    except (
        BootstrapFileError,
        MessagePolicyError,
        ListenerError,
        NodeError,
        RuleEngineError,
        RuleError,
        SchemaSourceError,
        StorageError,
    ) as error:
        print(f"heliograph: [{error.code}] {error}", file=sys.stderr)
        return 1


def _load(args: argparse.Namespace) -> Config:
    overrides = {} if args.data_dir is None else {"node.data_dir": args.data_dir}
    checks = (schema_faults, client_attribute_faults, policy_faults, rule_faults)
    return load_config(args.config, os.environ, overrides, checks)


async def _serve(config: Config, load: Callable[[], Config]) -> int:
    asked_to_stop, asked_to_reload = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    node = Node(config)
    starting = asyncio.create_task(node.start(), name="start")

    def stop() -> None:
        if not asked_to_stop.is_set():
            asked_to_stop.set()
            starting.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    loop.add_signal_handler(signal.SIGUSR1, node.log_statistics)
    loop.add_signal_handler(signal.SIGHUP, asked_to_reload.set)  # parts that have yet to start would not hear of it
    try:
        await starting
        loop.add_signal_handler(signal.SIGHUP, _reload, node, load)
        if asked_to_reload.is_set():
            _reload(node, load)
        print(node.ready_line(), flush=True)
        await asked_to_stop.wait()
    except asyncio.CancelledError:
        if not asked_to_stop.is_set():
            raise
        _log.info("stopped before it was ready, as it was asked to")
    finally:
        await node.stop()
    return 0


def _reload(node: Node, load: Callable[[], Config]) -> None:
    try:
        config = load()
    except ConfigError as error:
        tell_refused(error)
        return
    node.reload(config)


def _allow_open_files() -> None:
    # Each connection is an open file, and systems begin with a low limit that a process may raise by itself.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
