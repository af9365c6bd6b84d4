"""Joins durable sessions to a node."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from heliograph.config import Config
from heliograph.config.contradictions import DEFAULT_ZONE
from heliograph.durable_sessions.sessions import DurableSessions, MessageDatabase
from heliograph.durable_sessions.taken import note_off
from heliograph.node.options import channel_options
from heliograph.session.table import SessionTable
from heliograph.storage.errors import StorageError
from heliograph.storage.state.local import LocalState

_log = logging.getLogger(__name__)

_saying_off: Final[set[asyncio.Task[None]]] = set()


def open_sessions(
    config: Config,
    data_dir: Path,
    messages: MessageDatabase,
    table: SessionTable,
    begin_turn: Callable[[], object],
    join: Callable[["DurableSessions"], object] | None = None,
) -> DurableSessions | None:
    """Keep the sessions of a node from now on; None where they are not to be kept.

    Args:
        messages: The database of messages, which what they have missed is replayed from.
        join: Called before sessions are read, with what they will be in.
    """
    settings, own = config.durable_sessions, config.durable_storage.sessions
    state = LocalState(data_dir, "sessions", fsync=own.fsync, max_buffered_bytes=own.max_buffered_bytes)
    if not (settings.enable or any(zone.durable_sessions.enable for zone in config.zones.values())):
        if state.path.exists():
            task = asyncio.get_running_loop().create_task(_say_off(state, messages))
            _saying_off.add(task)
            task.add_done_callback(_saying_off.discard)
        return None
    topics, options = config.durable_storage.messages.topics, channel_options(config, DEFAULT_ZONE, "")
    try:
        state.open()
    except StorageError as error:
        _log.error("the database of sessions cannot be opened [%s]: %s", error.code, error)
    loop = asyncio.get_running_loop()
    sessions = DurableSessions(settings, topics, messages, state, table, table.broker, loop, begin_turn, options)
    if join is not None:
        join(sessions)
    sessions.load()
    return sessions


async def _say_off(state: LocalState, messages: MessageDatabase) -> None:
    """Note for a later start that sessions are not kept from now on, see `session_taken`."""
    try:
        state.open()
        note_off(state, messages.newest_commit_us())
    except StorageError as error:
        _log.warning("a start with sessions will take longer: it cannot be noted that they are off: %s", error)
    await state.close()
