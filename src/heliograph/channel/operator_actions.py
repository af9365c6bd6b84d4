"""What an operator does with one client: end its session, wherever that is, or set its keepalive."""

from mypy_extensions import i64

from heliograph.channel.authorization import Authorizer
from heliograph.channel.channel import Channel
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


def set_keepalive(context: ChannelContext, clientid: str, keepalive_s: i64) -> bool:
    """Let a client be silent as long as a keepalive (0 for no limit) allows; whether it is connected."""
    channel, session = context.channels.find(clientid), context.sessions.held(clientid)
    client = None if channel is None else channel.client_info()
    if not isinstance(channel, Channel) or session is None or client is None:
        return False
    authorizer = session.sender.access_check
    if not isinstance(authorizer, Authorizer):
        return False
    client.keepalive_s = keepalive_s
    channel.reader.silence_us_max = authorizer.options.silence_us_max(keepalive_s)
    return True
