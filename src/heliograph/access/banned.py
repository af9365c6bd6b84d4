"""The ban list: who may not connect, why, and until when.

A ban names one client id, user name or address, or many of them by a regular expression or a network. The first kind
is one look into a table, and so are networks (one look for each length of prefix that is in use); regular expressions
are tried one after the other, so there may only be so many. Columns and words are EMQX's.
"""

import heapq
import ipaddress
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

import regex

from heliograph.broker.client import ClientInfo
from heliograph.broker.hooks import OK, STOP
from heliograph.mqtt import reason_codes as rc

CLIENTID: Final = "clientid"
USERNAME: Final = "username"
PEERHOST: Final = "peerhost"
CLIENTID_RE: Final = "clientid_re"
USERNAME_RE: Final = "username_re"
PEERHOST_NET: Final = "peerhost_net"
KINDS: Final = (CLIENTID, USERNAME, PEERHOST, CLIENTID_RE, USERNAME_RE, PEERHOST_NET)

_PATTERNS_MAX: Final = 1000
_MATCH_S: Final = 0.01

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class BanError(ValueError):
    """A ban that cannot be; the text says why."""


@dataclass(frozen=True, slots=True)
class Ban:
    """One ban.

    Attributes:
        kind: What `who` is: one of `KINDS`.
        who: A client id, user name, address, regular expression or network (10.0.0.0/8).
        reason: Why, for people.
        by: Who decided it.
        at_s: Since when, in seconds since the epoch.
        until_s: Until when, or None for ever.
    """

    kind: str
    who: str
    reason: str = ""
    by: str = ""
    at_s: int = 0
    until_s: int | None = None


@dataclass(slots=True)
class _Pattern:
    ban: Ban
    compiled: "regex.Pattern[str]" = field(repr=False)


class BanList:
    """The bans of one node; owned by `BansPart`. In memory: what is to outlast a restart is in a bootstrap file.

    Args:
        now_s: The time, in seconds since the epoch.
        entries_max: Bans that are held; beyond it new ones are refused.

    Attributes:
        entries_max: The same; may be changed.
    """

    def __init__(self, now_s: Callable[[], int], entries_max: int = 100_000) -> None:
        self._now_s = now_s
        self.entries_max = entries_max
        self._exact: dict[tuple[str, str], Ban] = {}
        self._patterns: dict[tuple[str, str], _Pattern] = {}
        self._networks: dict[tuple[int, int], dict[int, Ban]] = {}  # by version and prefix length, then by prefix
        self._networks_count = 0
        self._ends: list[tuple[int, str, str]] = []  # a heap by the end of bans; passed over if it is not theirs
        self._refused_clients = 0
        self._refused_entries = 0

    def __len__(self) -> int:
        return len(self._exact) + len(self._patterns) + self._networks_count

    # --- the list

    def add(self, ban: Ban) -> bool:
        """Add a ban; False if there is such a ban already, which stays as it is, or no room for one more.

        Raises:
            BanError: The ban makes no sense, or has ended already.
        """
        if ban.until_s is not None and ban.until_s <= self._now_s():
            raise BanError(f"the ban of {ban.kind} {ban.who!r} has ended already")
        key = _key(ban.kind, ban.who)
        pattern = _compiled(ban) if ban.kind in (CLIENTID_RE, USERNAME_RE) else None
        self.expire()
        if self.find(ban.kind, ban.who) is not None:
            return False
        if len(self) >= self.entries_max or (pattern is not None and len(self._patterns) >= _PATTERNS_MAX):
            self._refused_entries += 1
            return False
        if pattern is not None:
            self._patterns[key] = _Pattern(ban, pattern)
        elif ban.kind == PEERHOST_NET:
            network = _network(ban.who)
            bans = self._networks.setdefault((network.version, network.prefixlen), {})
            bans[int(network.network_address)] = ban
            self._networks_count += 1
        else:
            self._exact[key] = ban
        if ban.until_s is not None:
            self._push_end(ban.until_s, ban)
        return True

    def remove(self, kind: str, who: str) -> bool:
        """Lift a ban; whether there was one.

        Raises:
            BanError: There cannot be such a ban.
        """
        key = _key(kind, who)
        if kind != PEERHOST_NET:
            return self._exact.pop(key, None) is not None or self._patterns.pop(key, None) is not None
        network = _network(who)
        length = (network.version, network.prefixlen)
        bans = self._networks.get(length, {})
        if bans.pop(int(network.network_address), None) is None:
            return False
        if not bans:
            del self._networks[length]
        self._networks_count -= 1
        return True

    def find(self, kind: str, who: str) -> Ban | None:
        """The ban of exactly that name, if it holds.

        Raises:
            BanError: There cannot be such a ban.
        """
        key = _key(kind, who)
        if kind == PEERHOST_NET:
            network = _network(who)
            bans = self._networks.get((network.version, network.prefixlen), {})
            return self._holding(bans.get(int(network.network_address)))
        pattern = self._patterns.get(key)
        return self._holding(self._exact.get(key) if pattern is None else pattern.ban)

    def __iter__(self) -> Iterator[Ban]:
        yield from list(self._exact.values())
        yield from [pattern.ban for pattern in self._patterns.values()]
        for bans in list(self._networks.values()):
            yield from list(bans.values())

    def expire(self) -> None:
        """Forget the bans that have ended."""
        now = self._now_s()
        while self._ends and self._ends[0][0] <= now:
            until_s, kind, who = heapq.heappop(self._ends)
            ban = self._raw(kind, who)
            if ban is not None and ban.until_s == until_s:
                self.remove(kind, who)

    # --- who is banned

    def check(self, clientid: str, username: str | None, peerhost: str) -> Ban | None:
        """The ban that keeps such a client out, or None."""
        if not len(self):
            return None
        ban = self._holding(self._exact.get((CLIENTID, clientid)))
        if ban is None and username is not None:
            ban = self._holding(self._exact.get((USERNAME, username)))
        return ban or self._check_address(peerhost) or self._check_patterns(clientid, username)

    def is_banned(self, clientid: str) -> bool:
        """Whether a client id is banned by name or expression."""
        return bool(self) and (
            self._holding(self._exact.get((CLIENTID, clientid))) is not None
            or self._check_patterns(clientid, None) is not None
        )

    def on_client_connect(self, client: ClientInfo, _connect: object, code: int) -> object:
        """Callback of `client.connect`: refuse who is banned."""
        if code != rc.SUCCESS or not (self._exact or self._patterns or self._networks_count):
            return OK
        if self.check(client.clientid, client.username, client.peerhost) is None:
            return OK
        self._refused_clients += 1
        return STOP, rc.BANNED

    def statistics(self) -> dict[str, int]:
        """How many bans there are, and what they and their limit refused."""
        return {
            "banned.count": len(self),
            "banned.refused_clients": self._refused_clients,
            "banned.refused_entries": self._refused_entries,
        }

    # --- inside

    def _holding(self, ban: Ban | None) -> Ban | None:
        return ban if ban is None or ban.until_s is None or ban.until_s > self._now_s() else None

    def _push_end(self, until_s: int, ban: Ban) -> None:
        if len(self._ends) > 2 * len(self) + 64:  # lifted bans leave theirs behind
            self._ends = [(other.until_s, other.kind, other.who) for other in self if other.until_s is not None]
            heapq.heapify(self._ends)
        else:
            heapq.heappush(self._ends, (until_s, ban.kind, ban.who))

    def _raw(self, kind: str, who: str) -> Ban | None:
        if kind == PEERHOST_NET:
            network = _network(who)
            return self._networks.get((network.version, network.prefixlen), {}).get(int(network.network_address))
        key = _key(kind, who)
        pattern = self._patterns.get(key)
        return self._exact.get(key) if pattern is None else pattern.ban

    def _check_address(self, peerhost: str) -> Ban | None:
        address = _address(peerhost)
        if address is None:  # a Unix socket has none
            return None
        ban = self._holding(self._exact.get((PEERHOST, str(address))))
        if ban is not None:
            return ban
        for (version, length), bans in self._networks.items():
            if version == address.version:
                shift = address.max_prefixlen - length
                ban = self._holding(bans.get(int(address) >> shift << shift))
                if ban is not None:
                    return ban
        return None

    def _check_patterns(self, clientid: str, username: str | None) -> Ban | None:
        for pattern in self._patterns.values():
            text = clientid if pattern.ban.kind == CLIENTID_RE else username
            if text is not None and self._holding(pattern.ban) is not None and _matches(pattern.compiled, text):
                return pattern.ban
        return None


def _matches(pattern: "regex.Pattern[str]", text: str) -> bool:
    try:
        return pattern.search(text, timeout=_MATCH_S) is not None
    except TimeoutError:
        return True  # a client must not get in by making a ban's expression run for ever


def _key(kind: str, who: str) -> tuple[str, str]:
    if kind not in KINDS:
        raise BanError(f"{kind!r} is no kind of ban; {', '.join(KINDS)} are valid")
    if not who:
        raise BanError(f"the ban names no {kind}")
    if kind != PEERHOST:
        return kind, who
    address = _address(who)
    if address is None:
        raise BanError(f"{who!r} is no address")
    return kind, str(address)


def _compiled(ban: Ban) -> "regex.Pattern[str]":
    try:
        return regex.compile(ban.who)
    except (regex.error, OverflowError, RecursionError) as error:
        raise BanError(f"{ban.who!r} is no regular expression: {error}") from None


def _network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError as error:
        raise BanError(f"{text!r} is no network: {error}") from None


def _address(text: str) -> Address | None:
    """The address, an IPv4 address within an IPv6 one as itself; None if the text is none."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return address if mapped is None else mapped
