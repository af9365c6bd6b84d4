"""Ends a client's connection and its session at an operator's word, wherever the session is."""

from heliograph.channel.context import ChannelContext
from heliograph.mqtt import reason_codes as rc


def kick(context: ChannelContext, clientid: str) -> bool:
    """End the connection and the session of a client, whose will is published; whether it had a session.

    A client of MQTT 5 is sent DISCONNECT 0x98 (administrative action).
    """
    sessions = context.sessions
    channel = context.channels.find(clientid)
    if channel is None:
        return sessions.end_away(clientid)
    session = sessions.held(clientid)
    if session is not None:
        session.expiry_interval_s = 0  # it ends with its connection
    channel.shut_down(rc.ADMINISTRATIVE_ACTION)
    return True
