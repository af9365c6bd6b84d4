"""Flapping detection: a client id that connects too often within a span of time is banned for a while.

Every CONNECT counts, whatever becomes of it: a client id that two clients share takes its session over without end.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from logging import Logger
from typing import Final

from heliograph.access.bans.ban_list import BanList
from heliograph.access.bans.ban_table import CLIENTID, Ban
from heliograph.broker.client import ClientInfo
from heliograph.broker.hooks import OK
from heliograph.config.services import FlappingDetect
from heliograph.mqtt import reason_codes as rc
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

    def on_client_connect(self, client: ClientInfo, _connect: object, code: int) -> object:
        """Count it, and ban the client id at its limit, from its next connection on."""
        settings = self.settings.get(client.zone)
        if settings is None or not settings.enable or code != rc.SUCCESS:
            return OK
        now, clientid = self._clock(), short_text(client.clientid)
        began, count = self._counted.pop(clientid, (now, 0))
        if now - began > settings.window_time * 1_000_000:
            began, count = now, 0
        count += 1
        if count >= settings.max_count:
            self._ban(client, count, settings)
            return OK
        if len(self._counted) >= self._clients_max:
            self._counted.popitem(last=False)
            self._forgotten += 1
        self._counted[clientid] = (began, count)
        return OK

    def on_client_connected(self, client: ClientInfo, *_args: object) -> None:
        """End what the connection began that had its client id banned.

        Where its login fails instead, the session of the client id stays: it may be another client's.
        """
        if self._bans.is_banned(client.clientid):
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

    def _ban(self, client: ClientInfo, count: int, settings: FlappingDetect) -> None:
        now_s = self._now_s()
        until_s = now_s + int(settings.ban_time)
        ban = Ban(CLIENTID, client.clientid, "flapping is detected", DETECTOR, now_s, max(until_s, now_s + 1))
        self._detected += 1
        if not self._bans.add(ban):
            return
        self._log.warn(
            "client %.200r at %s connected %d times within %g s and is banned for %g s",
            client.clientid,
            client.peerhost,
            count,
            settings.window_time,
            settings.ban_time,
        )
