"""The log lines about clients: connections and their ends, subscriptions, denials.

Connections, their ends and denials are `info`, subscriptions `debug`. What the log's level leaves out has no callback.
Each kind of line has a bound a minute, and denials one for each client; what is beyond is counted in one line.
"""

from collections import OrderedDict
from collections.abc import Callable
from logging import DEBUG, INFO, Logger
from typing import Final

from heliograph.broker.actions import PUBLISH, Action, Decision
from heliograph.broker.client import ClientInfo
from heliograph.mqtt import packets as p
from heliograph.observe.alarms import Alarms
from heliograph.observe.bounded_log import BoundedLog, short_text, shown_username
from heliograph.observe.lasting import LastingAlarms

ALARM: Final = "clientid_conflict"

_LINES_A_MINUTE: Final = 1200
_DENIALS_A_MINUTE: Final = 200
_DENIALS_OF_CLIENT: Final = 5
_VERSIONS: Final = {3: "3.1", 4: "3.1.1", 5: "5"}
_TAKEN: Final = frozenset({"takenover", "discarded"})


class ClientLog:
    """Owned by `ClientLogPart`, which hooks in the callbacks that the log's level wants."""

    def __init__(self, logger: Logger, clock: Callable[[], int]) -> None:
        self._log = BoundedLog(logger, clock, _LINES_A_MINUTE)
        self._subscriptions = BoundedLog(logger, clock, _LINES_A_MINUTE)
        self._denials = BoundedLog(logger, clock, _DENIALS_A_MINUTE)
        self._denied: dict[str, int] = {}  # lines of this minute by client
        self._clock = clock
        self._minute = 0

    def on_client_connected(self, client: ClientInfo, connect: p.Connect, _accumulator: object) -> None:
        self._log.write(
            INFO,
            "client %.200r connected from %s to %s "
            "(MQTT %s, user %.200r, clean start %s, keepalive %d s, session %d s)",
            client.clientid,
            client.peername,
            client.sockname,
            _VERSIONS.get(client.version, "?"),
            shown_username(client.username),
            client.clean_start,
            client.keepalive_s,
            client.expiry_interval_s,
        )

    def on_client_disconnected(self, client: ClientInfo, reason: str, *_more: object) -> None:
        more = ": another connection with this client id took its place" if reason in _TAKEN else ""
        self._log.write(INFO, "client %.200r at %s disconnected: %s%s", client.clientid, client.peername, reason, more)

    def on_check_authz_complete(
        self, client: ClientInfo, action: Action, topic: str, decision: Decision, _accumulator: object
    ) -> None:
        if decision.is_allowed:
            return
        minute = self._clock() // 60_000_000
        if minute != self._minute:
            self._minute = minute
            self._denied.clear()
        clientid = short_text(client.clientid)
        count = self._denied.get(clientid, 0) + 1
        if count > _DENIALS_OF_CLIENT or (count == 1 and len(self._denied) >= _DENIALS_A_MINUTE):
            return
        self._denied[clientid] = count
        to = "publish to" if action.kind == PUBLISH else "subscribe to"
        more = "; what it is denied further on in this minute is not logged" if count == _DENIALS_OF_CLIENT else ""
        self._denials.write(
            INFO, "client %.200r at %s may not %s %.200r%s", client.clientid, client.peername, to, topic, more
        )

    def on_session_subscribed(self, clientid: str, topic_filter: str, qos: int, *_more: object) -> None:
        self._subscriptions.write(DEBUG, "client %.200r subscribed to %.200r at QoS %d", clientid, topic_filter, qos)

    def on_session_unsubscribed(self, clientid: str, topic_filter: str, *_more: object) -> None:
        self._subscriptions.write(DEBUG, "client %.200r unsubscribed from %.200r", clientid, topic_filter)


class ConflictWatch:
    """Finds clients that fight over a client id: each takes the place of the other, again and again."""

    WINDOW_US: Final = 30_000_000
    COUNT: Final = 4  # within the window
    CLIENTS_MAX: Final = 10_000

    def __init__(self, alarms: Alarms, clock: Callable[[], int]) -> None:
        self._clock = clock
        # When places were taken, by client id; the last one last.
        self._taken: OrderedDict[str, list[int]] = OrderedDict()
        self._alarms = LastingAlarms(ALARM, alarms, clock, self.WINDOW_US, degrades=False)

    def on_client_disconnected(self, client: ClientInfo, reason: str, *_more: object) -> None:
        if reason not in _TAKEN:
            return
        now, clientid = self._clock(), short_text(client.clientid)
        recent = [at for at in self._taken.pop(clientid, []) if now - at < self.WINDOW_US]
        times = [*recent[1 - self.COUNT :], now]
        if len(self._taken) >= self.CLIENTS_MAX:
            del self._taken[next(iter(self._taken))]
        self._taken[clientid] = times
        if len(times) >= self.COUNT:
            message = (
                f"several clients use the client id {clientid[:200]!r} and take each other's place, the last one at "
                f"{client.peername}; give each a client id of its own"
            )
            details = {"clientid": clientid, "peername": client.peername, "username": shown_username(client.username)}
            self._alarms.happened(clientid, message, details)

    def tick(self) -> None:
        until = self._clock() - self.WINDOW_US
        while self._taken:
            clientid, times = next(iter(self._taken.items()))
            if times[-1] > until:
                break
            del self._taken[clientid]
        self._alarms.tick()

    def statistics(self) -> dict[str, int]:
        return self._alarms.statistics()
