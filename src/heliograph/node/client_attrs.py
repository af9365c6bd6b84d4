"""Joins client attributes to a node."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from heliograph.config.mqtt import ClientAttribute
from heliograph.config.settings import DEFAULT_ZONE, Config, zone_of
from heliograph.observe.bounded_log import BoundedLog
from heliograph.rules.environment import Environment

if TYPE_CHECKING:
    from heliograph.rules.client_attrs import ClientAttributes

_log: Final = logging.getLogger(__name__)


class ZoneAttributes:
    """Makes attributes of clients, by zone; owned by the node.

    Args:
        counted: What was counted before, where this takes the place of another.

    Raises:
        VariformError: An expression is not valid, or calls what does not exist.
    """

    def __init__(
        self,
        config: Config,
        clock: Callable[[], int],
        environment: Environment,
        counted: Mapping[str, int] | None = None,
    ) -> None:
        log = BoundedLog(_log, clock)
        self._counted = Counter[str](counted)
        self._settings = _settings(config)
        self._zones: dict[str, ClientAttributes] = {}
        if any(self._settings.values()):  # else variform is not loaded
            from heliograph.rules.client_attrs import ClientAttributes

            self._zones = {zone: ClientAttributes(one, log, environment) for zone, one in self._settings.items() if one}

    def serves(self, config: Config) -> bool:
        return _settings(config) == self._settings

    def of_zone(self, zone: str) -> ClientAttributes | None:
        return self._zones.get(zone)

    def statistics(self) -> dict[str, int]:
        zones = self._zones.values()
        return {
            "client_attrs.made": self._counted["client_attrs.made"] + sum(zone.made for zone in zones),
            "client_attrs.empty": self._counted["client_attrs.empty"] + sum(zone.empty for zone in zones),
            "client_attrs.failed": self._counted["client_attrs.failed"] + sum(zone.failed for zone in zones),
        }


def _settings(config: Config) -> Mapping[str, Sequence[ClientAttribute]]:
    return {zone: zone_of(config, zone).mqtt.client_attrs_init for zone in (DEFAULT_ZONE, *config.zones)}
