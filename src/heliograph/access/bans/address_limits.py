"""Limits for strangers, by the address of a client: how often it may connect, and fail to log in; a part of a node.

Both are checked at CONNECT, before an authenticator is asked: what is refused here costs no database and no password
hash.
"""

import ipaddress
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import lru_cache
from logging import Logger
from pathlib import Path
from typing import Final

from heliograph.access.bans.failed_logins import FailedLogins, WaitingLogin
from heliograph.access.bans.known_logins import KnownLogins
from heliograph.broker import hooks
from heliograph.broker.client import ClientInfo
from heliograph.broker.hook_order import ADDRESS_LIMITS
from heliograph.broker.hooks import OK, STOP, Hooks
from heliograph.config.address_limits import AddressLimits
from heliograph.config.settings import Config
from heliograph.mqtt import reason_codes as rc
from heliograph.observe.alarms import Alarms
from heliograph.observe.bounded_log import BoundedLog, shown_username
from heliograph.observe.metric import Sample, counter, gauge, plain
from heliograph.parts import Change, Hook, HookedPart
from heliograph.settings.units import Rate

_ADDRESSES_MAX: Final = 100_000
_HOSTS_CACHED: Final = 4096
_NAMELESS_MAX: Final = 1_000


# What a client can do nothing for is no failed login, and a ban is found after a password that was right.
_NOT_ITS_FAULT: Final = frozenset(
    {rc.SERVER_UNAVAILABLE, rc.SERVER_BUSY, rc.UNSPECIFIED_ERROR, rc.QUOTA_EXCEEDED, rc.BANNED}
)
_log = logging.getLogger(__name__)
ALARM: Final = "logins_refused"
_MANY: Final = 100  # refused within a span are worth an alarm
_SPAN_US: Final = 60_000_000


class ConnectRates:
    """A bucket of CONNECT packets for each address; the addresses of the longest ago make room for others."""

    def __init__(self, rate: Rate | None) -> None:
        self.rate = rate
        self._buckets: OrderedDict[int, tuple[float, int]] = OrderedDict()  # tokens, and when there were so many

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, place: int, now_us: int) -> bool:
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
        logger: Logs those that have to wait, a few lines a minute.
        known: Who logged in before.

    Attributes:
        refused_logins: CONNECT packets that were refused since logins failed before.
    """

    def __init__(
        self, settings: AddressLimits, clock: Callable[[], int], logger: Logger, known: KnownLogins | None = None
    ) -> None:
        self._clock = clock
        self._log = BoundedLog(logger, clock)
        self.logins = FailedLogins(settings.login_backoff, known)
        self._rates = ConnectRates(settings.max_conn_rate)
        # Clients that connect without a user name, which SCRAM or Kerberos may give them: they count by their ids.
        self._nameless: OrderedDict[ClientInfo, None] = OrderedDict()
        self.refused_logins = 0
        self.refused_connects = 0
        self.use(settings)

    def use(self, settings: AddressLimits) -> None:
        self._settings = settings
        self.logins.settings = settings.login_backoff
        self._rates.rate = settings.max_conn_rate
        self._place_of = lru_cache(maxsize=_HOSTS_CACHED)(self._look_up)

    def on_client_connect(self, client: ClientInfo, _connect: object, code: int) -> object:
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
        if not self._settings.login_backoff.enable:
            return OK
        if self.logins.has_waiting:
            name = _login_name(client)
            device = self.logins.known.device_of(place, name, client.clientid)
            if not self.logins.may_try(place, name, now, device):
                self.refused_logins += 1
                return STOP, rc.CONNECTION_RATE_EXCEEDED
        if client.username is None:
            self._nameless[client] = None
            if len(self._nameless) > _NAMELESS_MAX:  # those that left before the answer
                self._nameless.popitem(last=False)
        return OK

    def on_check_authn_complete(
        self, client: ClientInfo, code: int, _is_superuser: bool, is_anonymous: bool, *_args: object
    ) -> None:
        is_nameless = self._nameless.pop(client, self) is None
        if is_anonymous or code in _NOT_ITS_FAULT or not self._settings.login_backoff.enable:
            return
        host = client.peerhost
        place = self._place_of(host)
        if place is None:
            return
        name, known = client.clientid if is_nameless else _login_name(client), self.logins.known
        device = known.device_of(place, name, client.clientid)
        if code == rc.SUCCESS:
            self.logins.succeeded(place, name, self._clock(), device)
            known.add(place, name, client.clientid)
            return
        began = self.logins.failed_login(place, host, name, self._clock(), device)
        if began is not None:
            self._log.warn(
                "logins of %s from %s failed too often: they are refused for %g s, and longer after each further one",
                _shown(began) if began.name else "all that did not log in before",
                host,
                began.wait_us / 1e6,
            )

    def expire(self) -> None:
        now = self._clock()
        self.logins.expire(now)
        self._rates.expire(now)

    def statistics(self) -> dict[str, int]:
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


def _shown(waiting: WaitingLogin) -> str:
    return f"{'a known device of ' if waiting.is_device else ''}{shown_username(waiting.name)!r}"


def _login_name(client: ClientInfo) -> str:
    return client.username or client.clientid


class AddressLimitsPart(HookedPart):
    """Bounds what strangers can do by their addresses; owned by the node."""

    name = "address_limits"
    metrics = (
        counter("address_limits.failed_logins", "Logins that failed, of addresses that are not exempt."),
        counter("address_limits.refused_logins", "CONNECT packets that were refused since logins had failed."),
        counter("address_limits.refused_connects", "CONNECT packets beyond `address_limits.max_conn_rate`."),
        counter("address_limits.forgotten", "Failed logins that were forgotten to bound memory."),
        gauge("address_limits.waiting", "Login names and addresses that have to wait, or had to shortly before."),
        gauge("address_limits.counted", "Login names and addresses whose failed logins are counted."),
        gauge("address_limits.known", "Login names at addresses that logged in, as far as they are remembered."),
        gauge("address_limits.addresses", "Addresses whose CONNECT packets are counted."),
    )
    needs = ("kernel", "bans")
    roots = ("address_limits",)

    gate: Gate

    def __init__(
        self,
        config: Config,
        hooks: Hooks,
        alarms: Callable[[], Alarms],
        clock: Callable[[], int],
        known_file: Path | None = None,
    ) -> None:
        super().__init__(hooks)
        self._known_file = known_file
        self._settings = config.address_limits
        self._alarms = alarms
        self._clock = clock
        self._span_began_us = 0
        self._refused_before = 0

    async def start(self) -> None:
        self.gate = Gate(self._settings, self._clock, _log, KnownLogins(self._known_file))
        self._span_began_us = self._clock()
        self.hook_in()

    async def check(self, new: Config) -> Change | None:
        settings = new.address_limits
        return None if settings == self._settings else Change(lambda: self._use(settings))

    async def stop(self) -> None:
        await super().stop()
        self.gate.logins.known.save()

    def tick(self, uptime_us: int) -> None:
        self.gate.expire()
        self.gate.logins.known.save()
        now = self._clock()
        refused = self.gate.refused_logins - self._refused_before
        if refused >= _MANY:
            text = (
                f"{refused} CONNECT packets were refused within a minute, since logins from their addresses failed too "
                "often: passwords are being guessed, or devices have wrong ones"
            )
            self._alarms().activate(ALARM, text, {"refused": refused, **self.gate.logins.statistics()})
        if now - self._span_began_us >= _SPAN_US:
            if refused < _MANY:
                self._alarms().deactivate(ALARM)
            self._span_began_us, self._refused_before = now, self.gate.refused_logins

    def samples(self) -> list[Sample]:
        return plain(self.gate.statistics())

    def wanted(self) -> Sequence[Hook]:
        settings, gate = self._settings, self.gate
        counts = Hook(hooks.CLIENT_CHECK_AUTHN_COMPLETE, gate.on_check_authn_complete, ADDRESS_LIMITS)
        if not settings.login_backoff.enable and settings.max_conn_rate is None:
            return ()
        refuses = Hook(hooks.CLIENT_CONNECT, gate.on_client_connect, ADDRESS_LIMITS)
        return (refuses, counts) if settings.login_backoff.enable else (refuses,)

    def _use(self, settings: AddressLimits) -> None:
        self._settings = settings
        self.gate.use(settings)
        self.hook_in()
