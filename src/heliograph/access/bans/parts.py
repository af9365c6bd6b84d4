"""The ban list, and the detection of clients that come and go, as parts of a node."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence

from heliograph.access.bans.ban_list import BanList
from heliograph.access.bans.bootstrap import load_bans
from heliograph.access.bans.flapping import FlappingDetector
from heliograph.broker import hooks
from heliograph.broker.hook_order import ACCESS, FLAPPING
from heliograph.broker.hooks import Hooks
from heliograph.config.services import Banned, FlappingDetect
from heliograph.config.settings import DEFAULT_ZONE, Config
from heliograph.observe.metric import Sample, counter, gauge, plain
from heliograph.parts import Change, Hook, HookedPart

_log = logging.getLogger(__name__)


def _now_s() -> int:
    return int(time.time())


class BansPart(HookedPart):
    name = "bans"
    metrics = (
        gauge("banned.count", "Bans that hold."),
        counter("banned.refused_clients", "Clients that they refused."),
        counter("banned.refused_entries", "Bans that found no room."),
    )
    roots = ("banned",)

    bans: BanList

    def __init__(self, config: Config, hooks: Hooks, now_s: Callable[[], int] = _now_s) -> None:
        super().__init__(hooks)
        self.now_s = now_s
        self._settings = config.banned

    async def start(self) -> None:
        """Begin with those of the file; `BootstrapFileError` if it cannot be used."""
        self.bans = BanList(self.now_s)
        self.bans.use_file(self._read(self._settings))
        self.hook_in()

    async def check(self, new: Config) -> Change:
        """Ban what is new in the file, lift what is gone from it; other bans stay. Raises as `start`."""
        settings = new.banned
        # A hundred thousand bans take half a second, with every change of whatever setting.
        fresh = await asyncio.to_thread(self._read, settings) if settings.bootstrap_file else self._read(settings)
        return Change(lambda: self.bans.use_file(fresh))

    def tick(self, uptime_us: int) -> None:
        self.bans.expire()

    def samples(self) -> list[Sample]:
        return plain(self.bans.statistics())

    def wanted(self) -> Sequence[Hook]:
        return (Hook(hooks.CLIENT_CONNECT, self.bans.on_client_connect, ACCESS),)

    def _read(self, settings: Banned) -> BanList:
        bans, file = BanList(self.now_s, settings.max_entries), settings.bootstrap_file
        if file:
            _log.info("bans from %s: %d", file, load_bans(bans, file, self.now_s()))
        return bans


class FlappingPart(HookedPart):
    name = "flapping"
    metrics = (
        gauge("flapping.count", "Client ids whose connections are counted."),
        counter("flapping.detected", "Client ids that were banned since they connected too often."),
        counter("flapping.forgotten", "Client ids whose counts were forgotten to bound memory."),
    )
    needs = ("kernel", "bans", "commits")
    roots = ("flapping_detect", "zones.*.flapping_detect")

    _detector: FlappingDetector

    def __init__(
        self, config: Config, hooks: Hooks, bans: BansPart, clock: Callable[[], int], kick: Callable[[str], object]
    ) -> None:
        super().__init__(hooks)
        self._settings = _flapping(config)
        self._bans = bans
        self._clock = clock
        self._kick = kick

    async def start(self) -> None:
        self._detector = FlappingDetector(
            self._settings, self._bans.bans, self._bans.now_s, self._clock, _log, self._kick
        )
        self.hook_in()

    async def check(self, new: Config) -> Change | None:
        settings = _flapping(new)
        return None if settings == self._settings else Change(lambda: self._use(settings))

    def tick(self, uptime_us: int) -> None:
        self._detector.expire()

    def samples(self) -> list[Sample]:
        return plain(self._detector.statistics())

    def wanted(self) -> Sequence[Hook]:
        if not any(zone.enable for zone in self._settings.values()):
            return ()
        return (Hook(hooks.CLIENT_CONNECTED, self._detector.on_client_connected, FLAPPING),)

    def _use(self, settings: Mapping[str, FlappingDetect]) -> None:
        self._settings = self._detector.settings = settings
        self.hook_in()


def _flapping(config: Config) -> Mapping[str, FlappingDetect]:
    return {DEFAULT_ZONE: config.flapping_detect} | {name: zone.flapping_detect for name, zone in config.zones.items()}
