"""Limits for strangers, by the address of a client: how often it may connect, and fail to log in.

Both are checked at CONNECT, before an authenticator is asked: what is refused here costs no database and no password
hash.
"""

import ipaddress
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from logging import Logger
from typing import Final

from heliograph.access.bans.failed_logins import FailedLogins
from heliograph.broker.client import ClientInfo
from heliograph.broker.hooks import OK, STOP
from heliograph.config import AddressLimits
from heliograph.mqtt import reason_codes as rc
from heliograph.observe.bounded_log import BoundedLog
from heliograph.observe.short_text import shown_username
from heliograph.settings.units import Rate

_ADDRESSES_MAX: Final = 100_000
_HOSTS_CACHED: Final = 4096
# What a client can do nothing for is no failed login, and a ban is found after a password that was right.
_NOT_ITS_FAULT: Final = frozenset(
    {rc.SERVER_UNAVAILABLE, rc.SERVER_BUSY, rc.UNSPECIFIED_ERROR, rc.QUOTA_EXCEEDED, rc.BANNED}
)


class ConnectRates:
    """A bucket of CONNECT packets for each address; of more addresses than fit, those of the longest ago are forgotten.

    Args:
        rate: What each of them may; None for no limit.
    """

    def __init__(self, rate: Rate | None) -> None:
        self.rate = rate
        self._buckets: OrderedDict[int, tuple[float, int]] = OrderedDict()  # tokens, and when there were so many

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, place: int, now_us: int) -> bool:
        """Whether an address may connect once more."""
        rate = self.rate
        if rate is None:
            return True
        tokens, at_us = self._buckets.pop(place, (float(rate.amount), now_us))
        tokens = min(float(rate.amount), tokens + (now_us - at_us) * rate.per_second / 1e6)
        is_free = tokens >= 1.0
        self._buckets[place] = tokens - 1.0 if is_free else tokens, now_us
        if len(self._buckets) > _ADDRESSES_MAX:
            self._buckets.popitem(last=False)
        return is_free

    def expire(self, now_us: int) -> None:
        """Forget the addresses whose buckets are full again."""
        full_us = 0.0 if self.rate is None else self.rate.interval_s * 1e6
        while self._buckets:
            place = next(iter(self._buckets))
            if now_us - self._buckets[place][1] <= full_us:
                return
            del self._buckets[place]


class Gate:
    """Lets clients of an address connect within its limits; owned by `AddressLimitsPart`, which hooks it in.

    Args:
        settings: The limits.
        clock: Microseconds on the monotonic clock.
        logger: Where those that have to wait are logged, a few lines a minute.

    Attributes:
        logins: Failed logins.
        refused_logins: CONNECT packets that were refused since logins failed.
        refused_connects: Those that were refused since they came too often.
    """

    def __init__(self, settings: AddressLimits, clock: Callable[[], int], logger: Logger) -> None:
        self._clock = clock
        self._log = BoundedLog(logger, clock)
        self.logins = FailedLogins(settings.login_backoff)
        self._rates = ConnectRates(settings.max_conn_rate)
        self.refused_logins = 0
        self.refused_connects = 0
        self.use(settings)

    def use(self, settings: AddressLimits) -> None:
        """Use other limits; what was counted stays."""
        self._settings = settings
        self.logins.settings = settings.login_backoff
        self._rates.rate = settings.max_conn_rate
        self._place_of = lru_cache(maxsize=_HOSTS_CACHED)(self._look_up)

    def on_client_connect(self, client: ClientInfo, _connect: object, code: int) -> object:
        """Callback of `client.connect`: refuse whose address is beyond its limits."""
        if code != rc.SUCCESS:
            return OK
        host = client.peerhost
        place = self._place_of(host)
        if place is None:
            return OK
        now = self._clock()
        if not self._rates.take(place, now):
            self.refused_connects += 1
            self._log.warn("%s connects more often than address_limits.max_conn_rate allows", host)
            return STOP, rc.CONNECTION_RATE_EXCEEDED
        if self._settings.login_backoff.enable and not self.logins.may_try(place, _login_name(client), now):
            self.refused_logins += 1
            return STOP, rc.CONNECTION_RATE_EXCEEDED
        return OK

    def on_check_authn_complete(
        self, client: ClientInfo, code: int, _is_superuser: bool, is_anonymous: bool, *_told: object
    ) -> None:
        """Callback of `client.check_authn_complete`: count what failed."""
        if is_anonymous or code in _NOT_ITS_FAULT or not self._settings.login_backoff.enable:
            return
        host = client.peerhost
        place = self._place_of(host)
        if place is None:
            return
        name = _login_name(client)
        if code == rc.SUCCESS:
            self.logins.succeeded(place, name, self._clock())
            return
        began = self.logins.failed_login(place, host, name, self._clock())
        if began is not None:
            self._log.warn(
                "logins of %s from %s failed too often: they are refused for %g s, and longer after each further one",
                repr(shown_username(began.name)) if began.name else "all that did not log in before",
                host,
                began.wait_us / 1e6,
            )

    def expire(self) -> None:
        """Forget what no longer counts."""
        now = self._clock()
        self.logins.expire(now)
        self._rates.expire(now)

    def statistics(self) -> dict[str, int]:
        """What was refused, and what is kept."""
        return {
            "address_limits.refused_logins": self.refused_logins,
            "address_limits.refused_connects": self.refused_connects,
            "address_limits.addresses": len(self._rates),
            **self.logins.statistics(),
        }

    def _look_up(self, host: str) -> int | None:
        """What an address is counted by: itself, or of IPv6 its network of 64 bits; None if it has no limits."""
        try:
            address = ipaddress.ip_address(host.partition("%")[0])
        except ValueError:  # a Unix socket, or not known
            return None
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        if any(address in network for network in self._settings.exempt):
            return None
        return int(address) if address.version == 4 else int(address) >> 64 | 1 << 64


def _login_name(client: ClientInfo) -> str:
    return client.username or client.clientid
