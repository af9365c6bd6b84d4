"""Alarms of connections whose peers do not take what they are sent, as a part of a node."""

from typing import Final

from heliograph.channel.channel import Channel
from heliograph.config.settings import Config, zone_of
from heliograph.node.clock import uptime_us
from heliograph.node.kernel import KernelPart
from heliograph.node.listeners import ListenersPart
from heliograph.observe.lasting import LastingAlarms
from heliograph.observe.metric import Sample, counter, gauge, plain
from heliograph.parts import Change, Part
from heliograph.settings.records import microseconds

ALARM: Final = "conn_congestion"
_STUCK_US: Final = 1_000_000  # a burst that is read within this is no congestion


class CongestionPart(Part):
    """Looks at connections whose buffers are full; owned by the node. Nothing is done for those that are well."""

    name = "conn_congestion"
    metrics = (
        gauge("conn_congestion.active", "Clients that do not read what they are sent."),
        counter("conn_congestion.missed", "Of these, those that found no room for an alarm."),
    )
    needs = ("kernel", "listeners")
    roots = ("conn_congestion", "zones.*.conn_congestion")

    def __init__(self, config: Config, kernel: KernelPart, listeners: ListenersPart) -> None:
        self._config = config
        self._kernel = kernel
        self._listeners = listeners
        self._of_zones: dict[str, LastingAlarms] = {}  # with the settings that hold

    async def check(self, new: Config) -> Change | None:
        def use() -> None:
            self._config = new
            for zone, alarms in self._of_zones.items():
                settings = zone_of(new, zone).conn_congestion
                alarms.quiet_us = microseconds(settings.min_alarm_sustain_duration) if settings.enable_alarm else 0

        return Change(use)

    def tick(self, uptime_us: int) -> None:
        for listener in self._listeners.listeners:
            for channel in listener.connections.stuck(uptime_us - _STUCK_US):
                self._tell(channel)
        for alarms in self._of_zones.values():
            alarms.tick()

    def samples(self) -> list[Sample]:
        numbers = {"conn_congestion.active": 0, "conn_congestion.missed": 0}
        for alarms in self._of_zones.values():
            for name, value in alarms.statistics().items():
                numbers[name] += value
        return plain(numbers)

    def _tell(self, channel: Channel) -> None:
        client = channel.client_info()
        if client is None:
            return
        settings = zone_of(self._config, client.zone).conn_congestion
        if not settings.enable_alarm:
            return
        alarms = self._alarms_of(client.zone, settings.min_alarm_sustain_duration)
        username = client.username or ""
        message = (
            f"client {client.clientid[:200]!r} at {client.peername} does not read what it is sent: "
            "let it read faster, or subscribe to less"
        )
        details = {
            "clientid": client.clientid,
            "username": username,
            "peername": client.peername,
            "sockname": client.sockname,
            "listener": client.listener,
            "zone": client.zone,
            "unsent_bytes": channel.buffered_bytes(),
        }
        alarms.happened(f"{client.clientid}/{username}", message, details)

    def _alarms_of(self, zone: str, quiet_s: float) -> LastingAlarms:
        found = self._of_zones.get(zone)
        if found is None:
            found = LastingAlarms(ALARM, self._kernel.alarms, uptime_us, microseconds(quiet_s), degrades=False)
            self._of_zones[zone] = found
        return found
