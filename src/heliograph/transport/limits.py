"""The limits on new connections of a listener: its access rules by address, and the bucket of its rate."""

import ipaddress
from functools import lru_cache

from heliograph.config.access_rules import AccessRule
from heliograph.settings.units import Rate


class AccessRules:
    """The access rules of a listener: the first that fits decides, and where none does, all may connect."""

    def __init__(self, rules: tuple[AccessRule, ...]) -> None:
        self._rules = rules
        self.decides_nothing = all(rule.allow for rule in rules)
        self._decide = lru_cache(maxsize=1024)(self._look_up)

    def allow(self, host: str) -> bool:
        """Whether a peer with this address may connect; Unix sockets are the file system's matter."""
        return self.decides_nothing or not host or self._decide(host)

    def _look_up(self, host: str) -> bool:
        address = ipaddress.ip_address(host)
        for rule in self._rules:
            if rule.network is None or address in rule.network:
                return rule.allow
        return True


class ConnectionRate:
    """A bucket of tokens, one for each connection: it holds as many as the rate allows in its interval."""

    def __init__(self, rate: Rate | None, now_us: int) -> None:
        self._capacity = 0.0 if rate is None else float(rate.amount)
        self._per_us = 0.0 if rate is None else rate.per_second / 1e6
        self._tokens = self._capacity
        self._filled_at_us = now_us

    @property
    def is_limited(self) -> bool:
        return self._per_us != 0.0

    def take(self, now_us: int) -> bool:
        if self._per_us == 0.0:
            return True
        self._tokens = min(self._capacity, self._tokens + (now_us - self._filled_at_us) * self._per_us)
        self._filled_at_us = now_us
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    def give_back(self) -> None:
        if self._per_us:
            self._tokens += 1.0

    def wait_s(self) -> float:
        return max(0.0, 1.0 - self._tokens) / self._per_us / 1e6 if self._per_us else 0.0
