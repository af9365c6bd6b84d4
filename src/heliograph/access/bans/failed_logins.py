"""Failed logins by address: after some of them the next ones wait, longer each time.

They are counted twice: for each login name at an address, and for the address as a whole. So one device with a wrong
password does not lock out others behind the same router. A client that tries many names from one address has to wait
with all of them; names that logged in from there before are let through. A device that is known (`KnownLogins`, or by
the cookie of a browser) has a count of its own in place of both: guesses from its own address, under its own name, fill
what strangers share, and do not lock it out. Addresses and names are kept as hashes until they have to wait.
"""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

from heliograph.access.bans.known_logins import KnownLogins
from heliograph.config.address_limits import LoginBackoff
from heliograph.observe.bounded_log import short_text

_SECOND_US: Final = 1_000_000
_COUNTED_MAX: Final = 100_000
_WAITING_MAX: Final = 20_000


class WaitingLogin:
    """A login name at an address, a known device of one, or an address, that has to wait.

    Attributes:
        name: The login name; empty for all of the address.
        is_device: Whether it is a known device of that name.
        wait_us: How long it waited since the last failure.
        is_tried: Whether a login was tried after that, which has not failed or succeeded yet: others wait for it.
    """

    __slots__ = ("address", "is_device", "is_tried", "name", "until_us", "wait_us")

    def __init__(self, address: str, name: str, is_device: bool, until_us: int, wait_us: int) -> None:
        self.address = address
        self.name = name
        self.is_device = is_device
        self.until_us = until_us
        self.wait_us = wait_us
        self.is_tried = False

    def begin_try(self, now_us: int) -> None:
        """Count one login as tried; a crowd of them at once would be as many guesses."""
        self.is_tried = True
        self.until_us = now_us + self.wait_us


class FailedLogins:
    """Who has to wait after failed logins; owned by `Gate`, and by `BackOff` of the management process.

    Bounded: of more than fit into its tables, those of the longest ago are forgotten. A `device` is what a known one is
    counted by, empty for one that is not known.

    Args:
        known: Names that logged in from their addresses.
    """

    def __init__(self, settings: LoginBackoff, known: KnownLogins | None = None) -> None:
        self.settings = settings
        self.known = KnownLogins() if known is None else known
        # The first of a plain dictionary is found by passing over all that were taken out before it.
        self._counted: OrderedDict[int, tuple[int, int]] = OrderedDict()  # since when, and how many; failed last last
        self._waiting: OrderedDict[int, WaitingLogin] = OrderedDict()
        self.failed = 0
        self.forgotten = 0

    @property
    def has_waiting(self) -> bool:
        """Whether any login may have to wait."""
        return bool(self._waiting)

    def may_try(self, place: int, name: str, now_us: int, device: bytes = b"") -> bool:
        if not self._waiting:
            return True
        keys = [_key(place, name, device)]
        if not device and not self.known.knows(place, name):
            keys.append(hash(place))
        waiting = [one for key in keys if (one := self._waiting.get(key)) is not None]
        found = [one for one in waiting if not self._is_over(one, now_us)]
        if any(one.until_us > now_us for one in found):
            return False
        for one in found:
            one.begin_try(now_us)
        return True

    def failed_login(
        self, place: int, address: str, name: str, now_us: int, device: bytes = b""
    ) -> WaitingLogin | None:
        """A login failed: what has to wait from now on and did not before, if anything."""
        self.failed += 1
        settings, is_device = self.settings, bool(device)
        key = _key(place, name, device)
        began = self._fail(key, settings.max_failures, address, name, is_device, now_us)
        return self._fail(hash(place), settings.max_failures_of_address, address, "", False, now_us) or began

    def succeeded(self, place: int, name: str, now_us: int, device: bytes = b"") -> None:
        """A login succeeded: its failures are forgotten, those of its address are not."""
        key = _key(place, name, device)
        self._counted.pop(key, None)
        self._waiting.pop(key, None)
        if device or self.known.knows(place, name):
            return  # it did not wait for its address, and gives those who do no further try
        address = self._waiting.get(hash(place))
        if address is not None and address.is_tried:
            address.is_tried, address.until_us = False, now_us

    def lift(self, address: str) -> int:
        """End all waits of an address; return how many of its logins waited."""
        found = [key for key, waiting in self._waiting.items() if waiting.address == address]
        for key in found:
            del self._waiting[key]
        return len(found)

    def waiting(self, now_us: int) -> Iterator[WaitingLogin]:
        """Others may come and go between two of them."""
        for waiting in list(self._waiting.values()):
            if waiting.until_us > now_us:
                yield waiting

    def expire(self, now_us: int) -> None:
        window_us = int(self.settings.window_time * _SECOND_US)
        while self._counted:
            key = next(iter(self._counted))
            if now_us - self._counted[key][0] <= window_us:
                break
            del self._counted[key]
        while self._waiting:
            key = next(iter(self._waiting))
            if not self._is_over(self._waiting[key], now_us):
                break
            del self._waiting[key]

    def statistics(self) -> dict[str, int]:
        return {
            "address_limits.failed_logins": self.failed,
            "address_limits.counted": len(self._counted),
            "address_limits.waiting": len(self._waiting),
            "address_limits.known": len(self.known),
            "address_limits.forgotten": self.forgotten,
        }

    def _is_over(self, waiting: WaitingLogin, now_us: int) -> bool:
        """Whether it has been quiet for so long that the next failure is a first one."""
        return now_us - waiting.until_us > max(waiting.wait_us, int(self.settings.window_time * _SECOND_US))

    def _fail(self, key: int, free: int, address: str, name: str, is_device: bool, now_us: int) -> WaitingLogin | None:
        waiting = self._waiting.get(key)
        if waiting is not None and not self._is_over(waiting, now_us):
            if waiting.is_tried or waiting.until_us <= now_us:  # those under way when it began do not count
                waiting.is_tried = False
                self._wait_longer(key, waiting, now_us)
            return None
        began, count = self._counted.pop(key, (now_us, 0))
        if now_us - began > self.settings.window_time * _SECOND_US:
            began, count = now_us, 0
        if count + 1 < free:
            self._counted[key] = began, count + 1
            if len(self._counted) > _COUNTED_MAX:
                self._counted.popitem(last=False)
                self.forgotten += 1
            return None
        return self._begin(key, address, name, is_device, now_us)

    def _begin(self, key: int, address: str, name: str, is_device: bool, now_us: int) -> WaitingLogin:
        wait_us = int(self.settings.min_wait * _SECOND_US)
        self._waiting.pop(key, None)
        self._waiting[key] = waiting = WaitingLogin(address, short_text(name), is_device, now_us + wait_us, wait_us)
        if len(self._waiting) > _WAITING_MAX:
            self._waiting.popitem(last=False)
            self.forgotten += 1
        return waiting

    def _wait_longer(self, key: int, waiting: WaitingLogin, now_us: int) -> None:
        waiting.wait_us = min(2 * waiting.wait_us, int(self.settings.max_wait * _SECOND_US))
        waiting.until_us = now_us + waiting.wait_us
        self._waiting.move_to_end(key)  # failed last last


def _key(place: int, name: str, device: bytes) -> int:
    return hash((device, name)) if device else hash((place, name))
