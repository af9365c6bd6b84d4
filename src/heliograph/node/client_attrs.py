"""Joins client attributes to a node."""

import logging
from collections.abc import Callable
from typing import Final

from heliograph.config import Config
from heliograph.config.zones import DEFAULT_ZONE, zone_of
from heliograph.observe.bounded_log import BoundedLog
from heliograph.rules.client_attrs import ClientAttributes
from heliograph.rules.environment import Environment

_log: Final = logging.getLogger(__name__)


class ZoneAttributes:
    """What makes attributes of clients, by zone; owned by the node.

    Args:
        config: The whole configuration.
        clock: Microseconds on the monotonic clock.
        environment: Where expressions find variables of the environment.

    Raises:
        VariformError: An expression is none, or calls what does not exist.
    """

    def __init__(self, config: Config, clock: Callable[[], int], environment: Environment) -> None:
        log = BoundedLog(_log, clock)
        settings = {zone: zone_of(config, zone).mqtt.client_attrs_init for zone in (DEFAULT_ZONE, *config.zones)}
        self._zones = {zone: ClientAttributes(listed, log, environment) for zone, listed in settings.items() if listed}

    def of_zone(self, zone: str) -> ClientAttributes | None:
        """What makes the attributes of a zone's clients; None where they have none."""
        return self._zones.get(zone)

    def statistics(self) -> dict[str, int]:
        """Attributes that were made, and expressions that gave nothing or failed."""
        zones = self._zones.values()
        return {
            "client_attrs.made": sum(zone.made for zone in zones),
            "client_attrs.empty": sum(zone.empty for zone in zones),
            "client_attrs.failed": sum(zone.failed for zone in zones),
        }
