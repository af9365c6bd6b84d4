"""The limits by address as a part of a node."""

import logging
from collections.abc import Callable, Sequence
from typing import Final

from heliograph.access.bans.address_limits import Gate
from heliograph.broker import hooks
from heliograph.broker.hook_order import ADDRESS_LIMITS
from heliograph.broker.hooks import Hooks
from heliograph.config import AddressLimits, Config
from heliograph.observe.alarms import Alarms
from heliograph.observe.metric import Sample, counter, gauge, plain
from heliograph.parts import Change, Hook, HookedPart

_log = logging.getLogger(__name__)

ALARM: Final = "logins_refused"
_MANY: Final = 100  # refused within a span are worth an alarm
_SPAN_US: Final = 60_000_000


class AddressLimitsPart(HookedPart):
    """Bounds what strangers can do by their addresses; owned by the node.

    Args:
        alarms: The alarms of the node, once it has started.
        clock: Microseconds on the monotonic clock.

    Attributes:
        gate: What refuses them.
    """

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

    def __init__(self, config: Config, hooks: Hooks, alarms: Callable[[], Alarms], clock: Callable[[], int]) -> None:
        super().__init__(hooks)
        self._settings = config.address_limits
        self._alarms = alarms
        self._clock = clock
        self._span_began_us = 0
        self._refused_before = 0

    async def start(self) -> None:
        """Count what comes."""
        self.gate = Gate(self._settings, self._clock, _log)
        self._span_began_us = self._clock()
        self.hook_in()

    async def check(self, new: Config) -> Change | None:
        """Other limits from the next CONNECT on."""
        settings = new.address_limits
        return None if settings == self._settings else Change(lambda: self._use(settings))

    def tick(self, uptime_us: int) -> None:
        """Forget what no longer counts, and see whether many are refused."""
        self.gate.expire()
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
        """Counts named `address_limits.*`."""
        return plain(self.gate.statistics())

    def wanted(self) -> Sequence[Hook]:
        """Before a client is let in, and when it is known whether it is."""
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
