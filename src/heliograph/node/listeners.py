"""From the configuration to the node's listeners."""

import logging

from heliograph.channel.context import ChannelContext
from heliograph.config import Config
from heliograph.config.listeners import Listener as ListenerSettings
from heliograph.config.listeners import enabled
from heliograph.config.units import Rate
from heliograph.node.client_attrs import ZoneAttributes
from heliograph.node.options import channel_options, zone_of
from heliograph.transport import open_files
from heliograph.transport.listener import Listener
from heliograph.transport.peer_certificate import Identity

_log = logging.getLogger(__name__)


def make_listeners(config: Config, context: ChannelContext, attributes: ZoneAttributes) -> list[Listener]:
    """Every listener that is enabled, none of them started.

    Args:
        attributes: Makes the attributes of clients.

    Raises:
        CertificateError: A certificate cannot be used.
    """
    return [
        _make_listener(config, context, attributes, kind, name, settings)
        for kind, name, settings in enabled(config.listeners)
    ]


def tell_unreachable_limits(config: Config) -> None:
    """Warn of `max_connections` that the limit of open files does not allow."""
    wanted = [(f"{kind}:{name}", one.max_connections) for kind, name, one in enabled(config.listeners)]
    bounded = {name: most for name, most in wanted if most is not None}
    files_max = open_files.limit()
    room = files_max - open_files.reserve(files_max)
    if sum(bounded.values()) > room:
        _log.warning(
            "max_connections of %s cannot be reached: %d files may be open, which leaves %d for connections. "
            "Raise that limit (ulimit -n, LimitNOFILE in systemd), or lower max_connections",
            ", ".join(bounded),
            files_max,
            room,
        )


def _make_listener(
    config: Config,
    context: ChannelContext,
    attributes: ZoneAttributes,
    kind: str,
    name: str,
    settings: ListenerSettings,
) -> Listener:
    zone = settings.zone
    options = channel_options(config, zone, f"{kind}:{name}")
    options.mountpoint = settings.mountpoint
    made = attributes.of_zone(zone)
    options.attributes_of = None if made is None else made.of
    options.enable_authn = settings.enable_authn != "false"
    options.deny_anonymous = settings.enable_authn == "quick_deny_anonymous"
    options.messages_rate = _per_second(settings.messages_rate)
    options.messages_burst = float(settings.messages_burst)
    options.bytes_rate = _per_second(settings.bytes_rate)
    options.bytes_burst = float(settings.bytes_burst)
    mqtt = zone_of(config, zone).mqtt
    identity = Identity(mqtt.peer_cert_as_username, mqtt.peer_cert_as_clientid)
    return Listener(kind, name, settings, context, options, identity)


def _per_second(rate: Rate | None) -> float:
    return 0.0 if rate is None else rate.per_second
