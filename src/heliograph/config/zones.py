"""What holds in each zone of a configuration, and in all of them together."""

from typing import Final

from heliograph.config.settings import Config, Zone

DEFAULT_ZONE: Final = "default"


def zone_of(config: Config, name: str) -> Zone:
    """The settings of a zone; those of the root for `default` where the file has no zone of that name."""
    zone = config.zones.get(name)
    if zone is None:
        return Zone(
            config.mqtt,
            config.force_shutdown,
            config.flapping_detect,
            config.conn_congestion,
            config.overload_protection,
            config.durable_sessions,
        )
    return zone


def levels_max(config: Config) -> int:
    """The most levels that a topic may have in any zone."""
    return max(mqtt.max_topic_levels for mqtt in (config.mqtt, *(zone.mqtt for zone in config.zones.values())))
