"""Which listeners let every client in that the network lets through, unless the operator says that this is meant.

Checked where a node starts and where its configuration changes, not where a configuration is only read.
"""

from collections.abc import Iterator
from typing import Final

from heliograph.config.listeners import ListenerConfig, SslListener, WssListener, enabled
from heliograph.config.settings import Config
from heliograph.settings.units import UnixAddress, is_loopback

_ADVICE: Final = (
    "where every client that reaches it would be let in: authenticate clients (authentication = [{ mechanism = "
    "password_based, backend = built_in_database }], and `heliograph ctl users add NAME` adds a user), or bind it to "
    "127.0.0.1, or say that this is meant (%s.allow_anonymous_network = true)"
)


def open_listener_faults(config: Config) -> Iterator[tuple[tuple[str, ...], str]]:
    """The address of each listener that is open to strangers without leave, and what can be done."""
    for kind, name, listener in enabled(config.listeners):
        if is_open(config, listener) and not listener.allow_anonymous_network:
            path = ("listeners", kind, name)
            yield (*path, "bind"), f'found "{listener.bind}", {_ADVICE % ".".join(path)}'


def is_open(config: Config, listener: ListenerConfig) -> bool:
    """Whether others than this machine reach a listener, which asks for neither a password nor a certificate."""
    bind = listener.bind
    if isinstance(bind, UnixAddress) or is_loopback(bind.host):  # who may use a Unix socket, its file says
        return False
    return not demands_certificate(listener) and not authenticates(config, listener)


def demands_certificate(listener: ListenerConfig) -> bool:
    """Whether only clients with a certificate get in that an authority of the listener has signed."""
    if not isinstance(listener, SslListener | WssListener):
        return False
    return listener.ssl_options.verify and listener.ssl_options.fail_if_no_peer_cert


def authenticates(config: Config, listener: ListenerConfig) -> bool:
    """Whether an authenticator is asked about the clients of a listener: one of its own, or else of all listeners."""
    chain = listener.authentication or config.authentication
    return listener.enable_authn != "false" and any(one.enable for one in chain)
