"""Flapping detection: a client that disconnects too often within a span of time is banned for a while."""

from collections.abc import Callable, Mapping
from logging import Logger
from typing import Final

from heliograph.access.ban_table import CLIENTID, Ban
from heliograph.access.banned import BanList
from heliograph.broker.client import ClientInfo
from heliograph.config import FlappingDetect
from heliograph.observe.bounded_log import BoundedLog
from heliograph.observe.short_text import short_text

_CLIENTS_MAX: Final = 100_000
# Ends of connections that are the broker's doing, or another client's.
_NOT_COUNTED: Final = frozenset({"kicked", "takenover", "discarded", "server_shutting_down"})


class FlappingDetector:
    """Counts the disconnections of clients of one node; owned by `FlappingPart`, hooked in where a zone asks for it.

    Bounded: of more clients than fit into its table, those that disconnected longest ago are forgotten.

    Args:
        settings: What holds in each zone.
        bans: Where clients are banned.
        now_s: The time, in seconds since the epoch.
        clock: Microseconds on the monotonic clock.
        logger: Where bans are logged.

    Attributes:
        settings: What holds in each zone from now on.
    """

    def __init__(
        self,
        settings: Mapping[str, FlappingDetect],
        bans: BanList,
        now_s: Callable[[], int],
        clock: Callable[[], int],
        logger: Logger,
        clients_max: int = _CLIENTS_MAX,
    ) -> None:
        self.settings = settings
        self._bans = bans
        self._now_s = now_s
        self._clock = clock
        self._log = BoundedLog(logger, clock)
        self._clients_max = clients_max
        self._counted: dict[str, tuple[int, int]] = {}  # when counting began, and the count; last disconnected last
        self._detected = 0
        self._forgotten = 0

    def on_client_disconnected(self, client: ClientInfo, reason: str, *_told: object) -> None:
        """Callback of `client.disconnected`: count it, and ban the client at its limit."""
        settings = self.settings.get(client.zone)
        if settings is None or not settings.enable or reason in _NOT_COUNTED:
            return
        now, clientid = self._clock(), short_text(client.clientid)
        began, count = self._counted.pop(clientid, (now, 0))
        if now - began > settings.window_time * 1_000_000:
            began, count = now, 0
        count += 1
        if count >= settings.max_count:
            self._ban(client, count, settings)
            return
        if len(self._counted) >= self._clients_max:
            del self._counted[next(iter(self._counted))]
            self._forgotten += 1
        self._counted[clientid] = (began, count)

    def expire(self) -> None:
        """Forget clients whose span of time is over."""
        longest_us = max((settings.window_time for settings in self.settings.values()), default=0) * 1_000_000
        now = self._clock()
        while self._counted:
            clientid = next(iter(self._counted))
            if now - self._counted[clientid][0] <= longest_us:
                return
            del self._counted[clientid]

    def statistics(self) -> dict[str, int]:
        """How many clients are counted, were banned, and were forgotten for lack of room."""
        return {
            "flapping.count": len(self._counted),
            "flapping.detected": self._detected,
            "flapping.forgotten": self._forgotten,
        }

    def _ban(self, client: ClientInfo, count: int, settings: FlappingDetect) -> None:
        now_s = self._now_s()
        until_s = now_s + int(settings.ban_time)
        ban = Ban(
            CLIENTID, client.clientid, "flapping is detected", "flapping detector", now_s, max(until_s, now_s + 1)
        )
        self._detected += 1
        if self._bans.add(ban):
            self._log.warn(
                "client %.200r at %s disconnected %d times within %g s and is banned for %g s",
                client.clientid,
                client.peerhost,
                count,
                settings.window_time,
                settings.ban_time,
            )
