"""The sessions of a node, as all methods find them that are asked about one client."""

import asyncio

from heliograph.broker.pending import Pending
from heliograph.channel.context import ChannelContext
from heliograph.mqtt.errors import ProtocolError
from heliograph.rpc.methods import RpcError
from heliograph.session.durable import DurableSession
from heliograph.session.session import Session


async def held_session(context: ChannelContext, clientid: str, is_whole: bool = False) -> Session:
    """The session of a client; read from the disk in turns of their own if it lies only there.

    Args:
        is_whole: Whether what is in flight is read too.

    Raises:
        RpcError: There is none, or it cannot be read now.
    """
    sessions = context.sessions
    session = sessions.held(clientid)
    is_lost = is_whole and isinstance(session, DurableSession) and session.has_lost
    if session is None or is_lost:
        lookup = sessions.look_up(clientid, clean_start=not is_whole)
        if lookup is not None and not await _answer(lookup):
            raise _unreadable(clientid)
        session = sessions.held(clientid)
    if session is None:
        raise no_client(clientid)
    if is_whole:
        try:
            session.recall()
        except ProtocolError as error:
            raise _unreadable(clientid) from error
    return session


def no_client(clientid: str) -> RpcError:
    """What is answered where a client has no session."""
    return RpcError("not_found", f"no client has the id {clientid!r}; `ctl clients list` shows those that there are")


def _unreadable(clientid: str) -> RpcError:
    return RpcError(
        "session_unreadable", f"the session of {clientid!r} cannot be read from the disk now; the log says why"
    )


async def _answer(pending: Pending[bool]) -> bool:
    answered: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    pending.then(lambda answer: None if answered.done() else answered.set_result(answer))
    try:
        return await answered
    finally:
        pending.cancel()
