"""Another keepalive for a client that is connected, at an operator's word."""

from mypy_extensions import i64

from heliograph.channel.authorization import Authorizer
from heliograph.channel.channel import Channel
from heliograph.channel.context import ChannelContext


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
