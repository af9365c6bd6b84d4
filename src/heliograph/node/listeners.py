"""From the configuration to the node's listeners."""

from heliograph.channel.context import ChannelContext
from heliograph.config import Config
from heliograph.config.listeners import Listener as ListenerSettings
from heliograph.config.units import Rate
from heliograph.node.options import DEFAULT_ZONE, channel_options, zone_of
from heliograph.transport.errors import ListenerSettingsError
from heliograph.transport.listener import Listener
from heliograph.transport.peer_certificate import Identity


def make_listeners(config: Config, context: ChannelContext) -> list[Listener]:
    """Every listener that is enabled, none of them started.

    Raises:
        ListenerSettingsError: A listener names a zone that is not there.
        CertificateError: A certificate cannot be used.
    """
    listeners = config.listeners
    settings = [
        (kind, name, each)
        for kind, named in (
            ("tcp", listeners.tcp),
            ("ssl", listeners.ssl),
            ("ws", listeners.ws),
            ("wss", listeners.wss),
        )
        for name, each in named.items()
    ]
    return [_make_listener(config, context, kind, name, each) for kind, name, each in settings if each.enable]


def _make_listener(
    config: Config, context: ChannelContext, kind: str, name: str, settings: ListenerSettings
) -> Listener:
    zone = settings.zone
    if zone != DEFAULT_ZONE and zone not in config.zones:
        known = ", ".join(sorted({DEFAULT_ZONE, *config.zones}))
        raise ListenerSettingsError(
            f'listeners.{kind}.{name}.zone = "{zone}": there is no such zone; there are {known}. '
            f"Name one of them, or describe it under zones.{zone}"
        )
    options = channel_options(config, zone, f"{kind}:{name}")
    options.mountpoint = settings.mountpoint
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
