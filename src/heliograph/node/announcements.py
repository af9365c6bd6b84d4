"""The lines that a node logs when it starts and stops, and warnings about listeners that are open to all."""

import logging
import os
from collections.abc import Sequence
from pathlib import Path

from heliograph import __version__
from heliograph.broker import hooks
from heliograph.broker.hooks import Hooks
from heliograph.config.contradictions import is_open
from heliograph.config.settings import Config
from heliograph.parts import Plan
from heliograph.transport.listener import Listener

_log = logging.getLogger("heliograph.node")


def tell_begin(config: Config, data_dir: Path, number: int) -> None:
    _log.info(
        "heliograph %s starts as %s, number %d: process %d, data directory %s, at most %d open files",
        __version__,
        config.node.name,
        number,
        os.getpid(),
        data_dir.resolve(),
        _open_files_max(),
    )


def tell_parts(summary: str) -> None:
    _log.info("ready with %s", summary or "nothing that outlives it")


def tell_listeners(listeners: Sequence[Listener], config: Config, chains: Hooks) -> None:
    """A warning where every client is let in from everywhere."""
    has_callbacks = bool(chains.point(hooks.CLIENT_AUTHENTICATE).callbacks)
    for listener in listeners:
        _log.info("listener %s:%s listens on %s", listener.kind, listener.name, listener.address)
    open_ones = [
        listener
        for listener in listeners
        if is_open(config, listener.settings) and not (has_callbacks and listener.options.listener.enable_authn)
    ]
    if open_ones:
        _log.warning(
            "EVERY CLIENT THAT REACHES %s IS LET IN: its clients are not authenticated. Authenticate them "
            "(authentication = [{ mechanism = password_based, backend = built_in_database }], and `heliograph ctl "
            "users add NAME`), ask for certificates (ssl_options.verify = verify_peer, fail_if_no_peer_cert = true), "
            "bind it to 127.0.0.1, or put it behind a firewall",
            ", ".join(f"{listener.kind}:{listener.name} ({listener.address})" for listener in open_ones),
        )


def tell_stop_begins(connections: int) -> None:
    _log.info("stopping: no connection is accepted any more; clients to disconnect: %d", connections)


def tell_stopped(seconds: float, failed: Sequence[str]) -> None:
    if failed:
        _log.error("stopped after %.1f s, not in order: %s failed, see above", seconds, ", ".join(failed))
    else:
        _log.info("stopped after %.1f s: what was acknowledged is on the disk", seconds)


def tell_refused(error: Exception) -> None:
    if isinstance(error, ExceptionGroup):
        for one in error.exceptions:
            tell_refused(one)
        return
    code = getattr(error, "code", None)
    if code is None:
        _log.error("the configuration stays as it was: a part of the node failed when it was asked", exc_info=error)
    else:
        _log.error("the configuration stays as it was, nothing is applied [%s]: %s", code, error)


def tell_changed(plan: Plan) -> None:
    """What waits for the next start is logged once, and `ctl status` shows it."""
    if plan.now:
        _log.info("the configuration changed: %s", ", ".join(plan.now))
    else:
        _log.info("the configuration was read: no setting changed")
    if came := plan.restart_now_too:
        _log.warning("these settings change when the node is started again: %s", ", ".join(came))


def _open_files_max() -> int:
    return os.sysconf("SC_OPEN_MAX")
