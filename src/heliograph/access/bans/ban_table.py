"""A table of bans: by client id, user name, address, regular expression and network.

A client id, a user name or an address is one look into a table, and so are networks (one look for each length of prefix
that is in use); regular expressions are tried one after the other, so there may only be so many. Who may add a ban and
when it ends is the `BanList`'s.
"""

import ipaddress
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from heliograph.broker.walkable import Listed, ListWalk, WalkableList
from heliograph.observe.bounded_log import short_text
from heliograph.rules.errors import EvaluationFault

if TYPE_CHECKING:
    from heliograph.rules.bounded_pattern import BoundedPattern

CLIENTID: Final = "clientid"
USERNAME: Final = "username"
PEERHOST: Final = "peerhost"
CLIENTID_RE: Final = "clientid_re"
USERNAME_RE: Final = "username_re"
PEERHOST_NET: Final = "peerhost_net"
KINDS: Final = (CLIENTID, USERNAME, PEERHOST, CLIENTID_RE, USERNAME_RE, PEERHOST_NET)

# A longer client id or user name is held as its beginning and a hash: clients choose them, and may have 64 KiB.
_NAME_CHARS_MAX: Final = 1_024
_BEGINNING_CHARS: Final = 1_000
_TEXT_CHARS_MAX: Final = 4_096  # of an expression, and of what people say of a ban
# What all expressions together may take for one client, of the processor's time: others wait meanwhile.
_CLIENT_S: Final = 0.05

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class BanError(ValueError):
    """A ban that cannot be; the text says why."""


@dataclass(frozen=True, slots=True)
class Ban:
    """One ban of a client id, user name, address, regular expression or network; times are seconds since the epoch."""

    kind: str
    who: str
    reason: str = ""
    by: str = ""
    at_s: int = 0
    until_s: int | None = None


class HeldBan(Listed):
    """A ban in a table, with its expression, if it is one."""

    __slots__ = ("ban", "compiled")

    def __init__(self, ban: Ban, compiled: "BoundedPattern | None") -> None:
        super().__init__()
        self.ban = ban
        self.compiled = compiled


class BanTable:
    """Bans by what they name; owned by a ban list, which says which of them hold."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, str], HeldBan] = {}
        self._patterns: dict[tuple[str, str], HeldBan] = {}  # those that are expressions,
        self._networks: dict[tuple[int, int], dict[int, Ban]] = {}  # or networks: by version and length, then by prefix
        self._listed: WalkableList[HeldBan] = WalkableList()

    def __len__(self) -> int:
        return len(self._held)

    @property
    def patterns_count(self) -> int:
        return len(self._patterns)

    def put(self, ban: Ban) -> None:
        """Add a ban, in the place of one of that name; `BanError` if it makes no sense."""
        key = key_of(ban.kind, ban.who)
        if ban.kind in (CLIENTID, USERNAME):
            ban = replace(ban, who=key[1])
        is_pattern = ban.kind in (CLIENTID_RE, USERNAME_RE)
        held, before = HeldBan(ban, _compiled(ban) if is_pattern else None), self._held.get(key)
        if before is None:
            self._listed.add(held)
        else:
            self._listed.replace(before, held)
        self._held[key] = held
        if is_pattern:
            self._patterns[key] = held
        elif ban.kind == PEERHOST_NET:
            network = _network(ban.who)
            bans = self._networks.setdefault((network.version, network.prefixlen), {})
            bans[int(network.network_address)] = ban

    def remove(self, kind: str, who: str) -> bool:
        """Whether there was one; `BanError` if there cannot be."""
        key = key_of(kind, who)
        held = self._held.pop(key, None)
        if held is None:
            return False
        self._listed.remove(held)
        self._patterns.pop(key, None)
        if kind == PEERHOST_NET:
            network = _network(who)
            length = (network.version, network.prefixlen)
            bans = self._networks[length]
            del bans[int(network.network_address)]
            if not bans:
                del self._networks[length]
        return True

    def get(self, kind: str, who: str) -> Ban | None:
        """The ban of exactly that name, whether it holds or has ended; `BanError` if there cannot be one."""
        held = self._held.get(key_of(kind, who))
        return None if held is None else held.ban

    def __iter__(self) -> Iterator[Ban]:
        return iter([held.ban for held in self._held.values()])

    def walk(self) -> ListWalk[HeldBan]:
        return self._listed.walk()

    def check(self, clientid: str, username: str | None, peerhost: str, holds: Callable[[Ban], bool]) -> Ban | None:
        """The ban that keeps such a client out; `holds` says whether one has not ended."""
        ban = self._exactly(CLIENTID, _name(clientid))
        if ban is not None and holds(ban):
            return ban
        ban = None if username is None else self._exactly(USERNAME, _name(username))
        if ban is not None and holds(ban):
            return ban
        return self._check_address(peerhost, holds) or self._check_patterns(clientid, username, holds)

    def _exactly(self, kind: str, who: str) -> Ban | None:
        held = self._held.get((kind, who))
        return None if held is None else held.ban

    def _check_patterns(self, clientid: str, username: str | None, holds: Callable[[Ban], bool]) -> Ban | None:
        if not self._patterns:
            return None
        ends_s = time.thread_time() + _CLIENT_S
        texts = {CLIENTID_RE: _bytes_of(clientid), USERNAME_RE: _bytes_of(username)}
        for held in self._patterns.values():
            text = texts[held.ban.kind]
            if text is None or held.compiled is None or not holds(held.ban):
                continue
            # A client must not get in by names that make the expressions run for ever.
            if _matches(held.compiled, text) or time.thread_time() > ends_s:
                return held.ban
        return None

    def _check_address(self, peerhost: str, holds: Callable[[Ban], bool]) -> Ban | None:
        address = _address(peerhost) if self._held else None
        if address is None:  # a Unix socket has none
            return None
        ban = self._exactly(PEERHOST, str(address))
        if ban is not None and holds(ban):
            return ban
        for (version, length), bans in self._networks.items():
            if version == address.version:
                shift = address.max_prefixlen - length
                ban = bans.get(int(address) >> shift << shift)
                if ban is not None and holds(ban):
                    return ban
        return None


def _bytes_of(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8", "surrogatepass")


def _matches(pattern: "BoundedPattern", text: bytes) -> bool:
    """Whether an expression finds something, or takes too long to say so."""
    try:
        return pattern.search(text) is not None
    except (EvaluationFault, MemoryError):
        return True


def key_of(kind: str, who: str) -> tuple[str, str]:
    """What a ban is known by; `BanError` if there cannot be such a ban."""
    if kind not in KINDS:
        raise BanError(f"{kind!r} is no kind of ban; {', '.join(KINDS)} are valid")
    if not who:
        raise BanError(f"the ban names no {kind}")
    if kind == PEERHOST_NET:
        return kind, str(_network(who))
    if kind != PEERHOST:
        return kind, _name(who) if kind in (CLIENTID, USERNAME) else who
    address = _address(who)
    if address is None:
        raise BanError(f"{who!r} is no address")
    return kind, str(address)


def check_lengths(ban: Ban) -> None:
    """Refuse texts that are too long to be held; `BanError`."""
    texts = {"reason": ban.reason, "by": ban.by}
    if ban.kind not in (CLIENTID, USERNAME):
        texts[ban.kind] = ban.who
    for name, text in texts.items():
        if len(text) > _TEXT_CHARS_MAX:
            raise BanError(f"{name} has {len(text):,} characters; at most {_TEXT_CHARS_MAX:,} are valid")


def _name(text: str) -> str:
    return text if len(text) <= _NAME_CHARS_MAX else short_text(text, _BEGINNING_CHARS)


def _compiled(ban: Ban) -> "BoundedPattern":
    from heliograph.rules.bounded_pattern import pattern_of_text  # a node without such bans does not load it

    try:
        return pattern_of_text(ban.who)
    except ValueError as error:
        raise BanError(str(error)) from None


def _network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError as error:
        raise BanError(f"{text!r} is no network: {error}") from None


def _address(text: str) -> Address | None:
    """An IPv4 address within an IPv6 one is itself; None if the text is no address."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return address if mapped is None else mapped
