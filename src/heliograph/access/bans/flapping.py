"""Flapping detection: a client id that connects too often within a span of time is banned for a while.

Only clients that were let in count, so that who cannot log in has no id of others banned. A client id that two clients
share takes its session over without end, and counts each time.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from logging import Logger
from typing import Final

from heliograph.access.bans.ban_list import BanList
from heliograph.access.bans.ban_table import CLIENTID, Ban
from heliograph.broker.client import ClientInfo
from heliograph.config.services import FlappingDetect
from heliograph.observe.bounded_log import BoundedLog, short_text

_CLIENTS_MAX: Final = 100_000
DETECTOR: Final = "flapping detector"


class FlappingDetector:
    """Counts the connections of client ids of one node; owned by `FlappingPart`, hooked in where a zone asks for it.

    Bounded: of more client ids than fit into its table, those that connected longest ago are forgotten.

    Args:
        kick: Ends the connection and the session of a client id, in a later turn.
    """

    def __init__(
        self,
        settings: Mapping[str, FlappingDetect],
        bans: BanList,
        now_s: Callable[[], int],
        clock: Callable[[], int],
        logger: Logger,
        kick: Callable[[str], object],
        clients_max: int = _CLIENTS_MAX,
    ) -> None:
        self.settings = settings
        self._bans = bans
        self._now_s = now_s
        self._clock = clock
        self._log = BoundedLog(logger, clock)
        self._kick = kick
        self._clients_max = clients_max
        # When counting began, and the count; connected last last.
        self._counted: OrderedDict[str, tuple[int, int]] = OrderedDict()
        self._detected = 0
        self._forgotten = 0

    def on_client_connected(self, client: ClientInfo, *_args: object) -> None:
        """Count it; at its limit the client id is banned, and what it has now ends."""
        self._count(client)
        if self._bans.is_banned(client.clientid):  # now, or while it was authenticated
            self._kick(client.clientid)

    def expire(self) -> None:
        longest_us = max((settings.window_time for settings in self.settings.values()), default=0) * 1_000_000
        now = self._clock()
        while self._counted:
            clientid = next(iter(self._counted))
            if now - self._counted[clientid][0] <= longest_us:
                return
            del self._counted[clientid]

    def statistics(self) -> dict[str, int]:
        return {
            "flapping.count": len(self._counted),
            "flapping.detected": self._detected,
            "flapping.forgotten": self._forgotten,
        }

    def _count(self, client: ClientInfo) -> None:
        settings = self.settings.get(client.zone)
        if settings is None or not settings.enable:
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
            self._counted.popitem(last=False)
            self._forgotten += 1
        self._counted[clientid] = (began, count)

    def _ban(self, client: ClientInfo, count: int, settings: FlappingDetect) -> None:
        now_s = self._now_s()
        until_s = now_s + int(settings.ban_time)
        ban = Ban(CLIENTID, client.clientid, "flapping is detected", DETECTOR, now_s, max(until_s, now_s + 1))
        self._detected += 1
        if not self._bans.add(ban, is_automatic=True):
            return
        self._log.warn(
            "client %.200r at %s connected %d times within %g s and is banned for %g s",
            client.clientid,
            client.peerhost,
            count,
            settings.window_time,
            settings.ban_time,
        )
