"""Subscriptions as they are listed: found by their filters: most cost one comparison of texts.

The filters that match a topic name are found as those of a message are. Others are found in the list of all filters:
the beginning, the end or a part of its text shows of most filters that they are not wanted. Only subscriptions of
wanted filters are looked at. Those of durable sessions whose clients are away are not routed, so they are found by
their sessions; while there are none, no session is looked at.

It is compiled since many filters are looked at, and few subscriptions listed.
"""

from collections.abc import Iterator
from typing import Final, TypeAlias

from mypy_extensions import i64

from heliograph.broker.router import literal_prefix
from heliograph.broker.shared import SharedGroup
from heliograph.broker.subscription import PARKED, FilterEntry, Subscription
from heliograph.broker.trie import TrieWalk, filter_matches
from heliograph.channel.context import ChannelContext
from heliograph.mqtt.topic import (
    EXCLUSIVE_PREFIX,
    QUEUE_GROUP,
    QUEUE_PREFIX,
    SHARE_PREFIX,
    bare_filter,
    filter_covers,
    has_wildcard,
    split_share,
)
from heliograph.session.durability import SavedSubscription
from heliograph.session.durable import DurableSession
from heliograph.session.known import Asleep
from heliograph.session.session import Session

ANY: Final = -1  # a number that does not matter
_FILTERS_AT_ONCE: Final = 256
_SESSIONS_AT_ONCE: Final = 64
_READ_COST: Final = 16  # to read a session by itself costs as much as so many in a row
_SUBSCRIPTIONS_AT_ONCE: Final = 64
_VISITED_AT_ONCE: Final = 256  # levels of filters

Found: TypeAlias = "tuple[Session | str, Subscription | SavedSubscription, str]"
"""The session, or the client whose session is on the disk only; the subscription; its name, empty if not known yet."""


class WantedSubscriptions:
    """Which subscriptions are wanted; what has its default does not matter.

    Args:
        matches: Whose filter matches this topic name, with its mountpoint.
        within: Whose filter, with its mountpoint, matches nothing that this filter does not match.
        name: To this filter, as their clients wrote it.

    Attributes:
        clientid: Of this client.
        group: Shared, in the group of this name.
        durable: 1 for those that survive the broker, 0 for others.
        literal: A text that the filters have of all that are wanted.
    """

    def __init__(self, matches: str = "", within: str = "", name: str = "") -> None:
        self.matches = matches
        self.within = within
        self.name = name
        self.clientid = ""
        self.group = ""
        self.qos: i64 = ANY
        self.durable: i64 = ANY
        self.is_exact = within != "" and not has_wildcard(within)  # then it is the filter itself
        self._is_wild = within != "" and not self.is_exact
        self.is_any_filter = not matches and not within
        self._levels = matches.split("/") if matches else []
        self._slashes: i64 = within.count("/") if self._is_wild and not within.endswith("#") else ANY
        self._prefix = self._parent = self._part = ""
        self._suffix = bare_filter(name)
        if self._is_wild:
            self._prefix = literal_prefix(within)
            if within == f"{self._prefix}/#":  # it matches its parent level too, and few others begin like that
                self._parent, self._prefix = self._prefix, f"{self._prefix}/"
            self._part, self._suffix = _literals(within)
        texts = [self._parent or self._prefix, self._part, self._suffix, within if self.is_exact else ""]
        self.literal = max(texts, key=len)

    def of_filters(self, entries: list[FilterEntry]) -> list[FilterEntry]:
        """The wanted ones of some filters; of most, one look at the text is enough."""
        prefix, parent, part, suffix = self._prefix, self._parent, self._part, self._suffix
        if parent:
            entries = [
                entry for entry in entries if entry.topic_filter.startswith(prefix) or entry.topic_filter == parent
            ]
        elif prefix:
            entries = [entry for entry in entries if entry.topic_filter.startswith(prefix)]
        if suffix:
            entries = [entry for entry in entries if entry.topic_filter.endswith(suffix)]
        if part:
            entries = [entry for entry in entries if part in entry.topic_filter]
        slashes = self._slashes
        if slashes != ANY:
            entries = [entry for entry in entries if entry.topic_filter.count("/") == slashes]
        if self.is_any_filter:
            return entries
        return [entry for entry in entries if self.takes_filter(entry.topic_filter)]

    def takes_filter(self, topic_filter: str) -> bool:
        """Whether a filter, with its mountpoint, is wanted; its name is not looked at."""
        if self.is_exact and topic_filter != self.within:
            return False
        if self._is_wild and topic_filter != self.within and not filter_covers(self.within, topic_filter):
            return False
        return not self._levels or filter_matches(topic_filter, self._levels)

    def takes(self, group: str, qos: i64, is_durable: bool) -> bool:
        """Whether a subscription is wanted whose filter and name are."""
        return (
            (self.qos == ANY or qos == self.qos)
            and (self.durable == ANY or is_durable == (self.durable == 1))
            and (not self.group or group == self.group)
        )


def found_subscriptions(context: ChannelContext, wanted: WantedSubscriptions) -> Iterator[list[Found]]:
    """All that are wanted, those of the newest filter before others; an empty list is a piece of work that found none.

    Things may change between two pieces. One that is moved meanwhile, since others leave, may be found twice.
    """
    sessions, router = context.sessions, context.broker.router
    if wanted.clientid:
        entry = sessions.known.entry(wanted.clientid)
        if isinstance(entry, Asleep):
            yield from _of_one_asleep(context, wanted, wanted.clientid)
        elif isinstance(entry, Session):
            yield from _of_session(wanted, entry, False)
        return
    for entries in _wanted_filters(context, wanted):
        yield []
        yield from _of_list(context, wanted, [entry.only for entry in entries if entry.only is not None])
        for many in [entry.many for entry in entries if entry.many is not None]:
            yield from _of_list(context, wanted, many)
    if router.parked_count == 0:
        return
    walk = sessions.walk()
    while taken := walk.take(_SESSIONS_AT_ONCE):
        yield []
        for one in taken:
            if isinstance(one, DurableSession) and one.parked:
                yield from _of_session(wanted, one, True)
    yield from _of_asleep(context, wanted)


def columns_of(found: Found) -> tuple[str, str, int, bool, bool, int, int, bool]:
    """The columns of a subscription, in the order of `control.proto_v1.subscriptions.SubscriptionRow`."""
    owner, one, name = found
    if isinstance(owner, Session):
        clientid, is_durable = owner.clientid, isinstance(owner, DurableSession)
        if isinstance(one, Subscription):
            name = name or _name_of(owner, one)
    else:
        clientid, is_durable = owner, True
    handling, number = int(one.retain_handling), int(one.subscription_id)
    return clientid, name, int(one.qos), one.no_local, one.retain_as_published, handling, number, is_durable


def _wanted_filters(context: ChannelContext, wanted: WantedSubscriptions) -> Iterator[list[FilterEntry]]:
    """The routed filters that are wanted, some at a time."""
    filters = context.broker.router.filters
    if wanted.matches:
        match = TrieWalk(wanted.matches)
        while not filters.trie.advance(match, _VISITED_AT_ONCE):
            yield []
        exact = filters.exact(wanted.matches)
        found = match.found if exact is None else [*match.found, exact]
        yield wanted.of_filters(found)
    elif wanted.is_exact or (wanted.name and not context.sessions.has_mountpoints):
        named = filters.named(wanted.within if wanted.is_exact else bare_filter(wanted.name))
        if named is not None:
            yield wanted.of_filters([named])
    else:
        walk = filters.walk()
        while taken := walk.take(_FILTERS_AT_ONCE):
            yield wanted.of_filters(taken)


def _of_list(
    context: ChannelContext, wanted: WantedSubscriptions, subscriptions: list[Subscription]
) -> Iterator[list[Found]]:
    """The wanted ones of a filter, or of a group; from behind, since the last moves into the place of one that goes."""
    held = context.sessions.known.held
    at: i64 = len(subscriptions)
    while at > 0:
        at = min(at, len(subscriptions))
        begin: i64 = max(0, at - _SUBSCRIPTIONS_AT_ONCE)
        found: list[Found] = []
        some = subscriptions[begin:at]
        if wanted.qos != ANY:
            some = [one for one in some if one.qos == wanted.qos or isinstance(one.subscriber, SharedGroup)]
        for one in some:
            subscriber = one.subscriber
            if isinstance(subscriber, SharedGroup):
                yield from _of_list(context, wanted, subscriber.members)
            elif (
                isinstance(subscriber, Session)
                and one.slot >= 0
                and wanted.takes(one.group, one.qos, isinstance(subscriber, DurableSession))
                and held.get(subscriber.clientid) is subscriber  # it has not ended
                and (not wanted.name or _name_of(subscriber, one) == wanted.name)
            ):
                found.append((subscriber, one, wanted.name))
        yield found
        at = begin


def _of_asleep(context: ChannelContext, wanted: WantedSubscriptions) -> Iterator[list[Found]]:
    """The wanted ones of all sessions that are on the disk only."""
    sessions, durability = context.sessions, context.sessions.durability
    known = sessions.known
    if durability is None or sessions.asleep_count == 0:
        return
    if sessions.asleep_count * _READ_COST > len(sessions):
        for page in durability.all_saved_subscriptions(wanted.literal):
            yield _of_saved(wanted, [one for one in page if one[0] in known.asleep])
        return
    walk = sessions.walk()
    while taken := walk.take(_SESSIONS_AT_ONCE):
        yield []
        for one in taken:
            if isinstance(one, Asleep):
                yield from _of_one_asleep(context, wanted, one.clientid)


def _of_one_asleep(context: ChannelContext, wanted: WantedSubscriptions, clientid: str) -> Iterator[list[Found]]:
    durability = context.sessions.durability
    if durability is not None:
        for page in durability.saved_subscriptions(clientid):
            yield _of_saved(wanted, [(clientid, one) for one in page])


def _of_saved(wanted: WantedSubscriptions, page: list[tuple[str, SavedSubscription]]) -> list[Found]:
    found: list[Found] = []
    for clientid, one in page:
        name = one.name
        if (
            (not wanted.name or name == wanted.name)
            and wanted.takes(split_share(name)[0], one.qos, True)
            and wanted.takes_filter(one.mountpoint + bare_filter(name))
        ):
            found.append((clientid, one, name))
    return found


def _of_session(wanted: WantedSubscriptions, session: Session, is_unrouted: bool) -> Iterator[list[Found]]:
    held, is_durable = session.subscriptions, isinstance(session, DurableSession)
    names = [wanted.name] if wanted.name else list(held)  # 100,000 names are copied in half a millisecond
    for begin in range(0, len(names), _SUBSCRIPTIONS_AT_ONCE):
        found: list[Found] = []
        for name in names[begin : begin + _SUBSCRIPTIONS_AT_ONCE]:
            one = held.get(name)
            if (
                one is not None
                and (not is_unrouted or one.slot == PARKED)
                and wanted.takes(one.group, one.qos, is_durable)
                and wanted.takes_filter(one.topic_filter)
            ):
                found.append((session, one, name))
        yield found


def _name_of(session: Session, subscription: Subscription) -> str:
    """The filter of a subscription as its client wrote it."""
    held, bare = session.subscriptions, subscription.topic_filter.removeprefix(session.mountpoint)
    names = [bare, EXCLUSIVE_PREFIX + bare]
    if subscription.group:
        names = [f"{SHARE_PREFIX}{subscription.group}/{bare}"]
        if subscription.group == QUEUE_GROUP:
            names.append(QUEUE_PREFIX + bare)
    for name in names:
        if held.get(name) is subscription:
            return name
    return next((name for name, one in held.items() if one is subscription), bare)


def _literals(topic_filter: str) -> tuple[str, str]:
    """What all filters have within and at their end that a filter with wildcards covers; its beginning is not here."""
    if topic_filter == "#":
        return "", ""
    texts = topic_filter.removesuffix("/#").split("+")  # `a/+/b/#` covers `a/x/b`
    part = max(texts[1:], key=len, default="")
    return part, "" if topic_filter.endswith("#") else texts[-1]
