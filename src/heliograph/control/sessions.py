"""The sessions of a node, as all methods find them that are asked about one client."""

import asyncio
from collections.abc import Iterator

from heliograph.broker.pending import Pending
from heliograph.broker.walkable import Listed
from heliograph.channel.context import ChannelContext
from heliograph.rpc.methods import RpcError
from heliograph.session.session import Session


async def held_session(context: ChannelContext, clientid: str) -> Session:
    """The session of a client; read from the disk in turns of their own if it lies only there.

    Raises:
        RpcError: There is none, or it cannot be read now.
    """
    sessions = context.sessions
    session = sessions.held(clientid)
    if session is None:
        lookup = sessions.look_up(clientid, clean_start=True)  # what is in flight is not needed
        if lookup is not None and not await _answer(lookup):
            raise RpcError(
                "session_unreadable", f"the session of {clientid!r} cannot be read from the disk now; the log says why"
            )
        session = sessions.held(clientid)
    if session is None:
        raise no_client(clientid)
    return session


def no_client(clientid: str) -> RpcError:
    """What is answered where a client has no session."""
    return RpcError("not_found", f"no client has the id {clientid!r}; `ctl clients list` shows those that there are")


def every_session(context: ChannelContext) -> Iterator[Listed]:
    """All sessions that there are now, the newest first: a `Session` each, or an `Asleep`."""
    walk = context.sessions.walk()
    try:
        while found := walk.take(1):  # what is taken and not told yet might end meanwhile
            yield found[0]
    finally:
        walk.end()


async def _answer(pending: Pending[bool]) -> bool:
    answered: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    pending.then(lambda answer: None if answered.done() else answered.set_result(answer))
    try:
        return await answered
    finally:
        pending.cancel()
