"""Topic rewriting: messages and subscriptions get another topic by rules of the operator.

As in EMQX, of the rules whose `source_topic` matches a topic the last one in the configuration counts, and if its
regular expression does not match, the topic stays. The prefix of a shared or exclusive subscription stays too. A
message is authorized by the topic that its client named; retained, stored and routed by the rewritten one.
"""

from collections.abc import Callable, Mapping, Sequence
from logging import Logger
from typing import Final

from heliograph.broker.client import ClientInfo
from heliograph.broker.hooks import OK
from heliograph.broker.message import Message
from heliograph.broker.pubsub import Broker
from heliograph.config.services import RewriteRule
from heliograph.mqtt import packets as p
from heliograph.mqtt.topic import bare_filter, subscription_fault, topic_filter_fault, topic_matches, topic_name_fault
from heliograph.observe.bounded_log import BoundedLog
from heliograph.policies.changed_message import with_topic
from heliograph.policies.template import TopicTemplate, topic_fault

_NAMES: Final = ("clientid", "username")
# How long one match may take, and how long a rule that took longer rests: a hostile topic costs 1 % of the loop.
_MATCH_S: Final = 0.01
_REST_US: Final = 1_000_000
_KNOWN_TOPICS_MAX: Final = 10_000
_KNOWN_TOPIC_LENGTH_MAX: Final = 1024

_Values = Mapping[str, str | None]


class _Rule:
    def __init__(self, settings: RewriteRule) -> None:
        import regex  # a node without such rules does not load it

        self.settings = settings
        self.pattern = regex.compile(settings.re)
        self.template = TopicTemplate(settings.dest_topic, _NAMES, self.pattern.groups)
        self.rests_until_us = 0


class _Match:
    __slots__ = ("groups", "rule")

    def __init__(self, rule: _Rule, groups: tuple[str | None, ...]) -> None:
        self.rule = rule
        self.groups = groups


class TopicRewrite:
    """The rewrite rules of one node; owned by `RewritePart`, which hooks it in where there are rules."""

    def __init__(self, broker: Broker, rules: Sequence[RewriteRule], logger: Logger) -> None:
        self._broker = broker
        self._log = BoundedLog(logger, lambda: broker.uptime_us)
        # What matching found out about the topics of messages: a rule and its groups, or that none is for them. A match
        # with a bound on its time costs 5 µs.
        self._known: dict[str, _Match | None] = {}
        self._rewritten = 0
        self._invalid = 0
        self._timeouts = 0
        self.prepare(rules)()

    def prepare(self, rules: Sequence[RewriteRule]) -> Callable[[], None]:
        """Compile other rules: the returned function puts them in the place of those before; counts go on."""
        used = [_Rule(settings) for settings in reversed(rules) if settings.source_topic]

        def use() -> None:
            self._for_messages = [rule for rule in used if rule.settings.action != "subscribe"]
            self._for_filters = [rule for rule in used if rule.settings.action != "publish"]
            self._known.clear()

        return use

    @property
    def rewrites_messages(self) -> bool:
        return bool(self._for_messages)

    @property
    def rewrites_filters(self) -> bool:
        return bool(self._for_filters)

    # --- callbacks of hook points

    def wants(self, topic: str) -> bool:
        return _first_for(self._for_messages, topic) is not None

    def on_message_publish(self, message: Message) -> object:
        match = self._match_of(message.topic)
        if match is None:
            return OK
        other = self._fill(match, message.topic, _values_of(message), is_filter=False)
        if other is None:
            return OK
        self._rewritten += 1
        return OK, with_topic(message, other)

    def rewrite_only(self, message: Message) -> Message:
        """What `on_message_publish` makes of a message; nothing is counted."""
        match = self._match_of(message.topic)
        other = None if match is None else match.rule.template.fill(_values_of(message), match.groups)
        if other is None or other == message.topic or self._fault(other, is_filter=False) is not None:
            return message
        return with_topic(message, other)

    def on_client_subscribe(
        self, client: ClientInfo, _properties: object, entries: list[p.SubscribeEntry]
    ) -> tuple[str, list[p.SubscribeEntry]]:
        """Give subscriptions other filters; an entry that keeps its filter stays the one it was."""
        values = {"clientid": client.clientid, "username": client.username}
        changed: list[p.SubscribeEntry] = []
        for entry in entries:
            other = self.filter_of(entry.topic_filter, values)
            changed.append(entry if other == entry.topic_filter else _with_filter(entry, other))
        return OK, changed

    def on_client_unsubscribe(
        self, client: ClientInfo, _properties: object, topic_filters: list[str]
    ) -> tuple[str, list[str]]:
        values = {"clientid": client.clientid, "username": client.username}
        return OK, [self.filter_of(topic_filter, values) for topic_filter in topic_filters]

    def filter_of(self, topic_filter: str, values: _Values) -> str:
        """The filter that stands for `topic_filter`, prefix and all; itself if no rule is for it or it is not valid."""
        if subscription_fault(topic_filter, self._broker.router.levels_max) is not None:
            return topic_filter
        bare = bare_filter(topic_filter)
        match = self._match(self._for_filters, bare)
        other = None if match is None else self._fill(match, bare, values, is_filter=True)
        if other is None:
            return topic_filter
        self._rewritten += 1
        return topic_filter[: len(topic_filter) - len(bare)] + other

    def statistics(self) -> dict[str, int]:
        return {
            "rewrite.rewritten": self._rewritten,
            "rewrite.invalid": self._invalid,
            "rewrite.timeouts": self._timeouts,
            "rewrite.known_topics": len(self._known),
        }

    # --- inside

    def _match_of(self, topic: str) -> _Match | None:
        return self._known[topic] if topic in self._known else self._learn(topic)

    def _learn(self, topic: str) -> _Match | None:
        timeouts = self._timeouts
        match = self._match(self._for_messages, topic)
        if timeouts == self._timeouts and len(topic) <= _KNOWN_TOPIC_LENGTH_MAX:
            if len(self._known) >= _KNOWN_TOPICS_MAX:
                self._known.clear()
            self._known[topic] = match
        return match

    def _match(self, rules: Sequence[_Rule], topic: str) -> _Match | None:
        rule = _first_for(rules, topic)
        if rule is None:
            return None
        if rule.rests_until_us > self._broker.uptime_us:
            self._timeouts += 1
            return None
        try:
            match = rule.pattern.search(topic, timeout=_MATCH_S)
        except TimeoutError:
            self._timeouts += 1
            rule.rests_until_us = self._broker.uptime_us + _REST_US
            self._log.warn(
                "rewriting topic %.200r with re = %r takes too long; the topic stays", topic, rule.settings.re
            )
            return None
        return None if match is None else _Match(rule, match.groups())

    def _fill(self, match: _Match, topic: str, values: _Values, *, is_filter: bool) -> str | None:
        """The topic that a rule makes of `topic`; None for no change."""
        rule = match.rule
        other = rule.template.fill(values, match.groups)
        fault = self._fault(other, is_filter=is_filter)
        if fault is not None:
            self._invalid += 1
            self._log.warn(
                "rewriting topic %.200r of client %.200r to dest_topic = %r gives no valid topic, so it stays: %s",
                topic,
                values["clientid"],
                rule.settings.dest_topic,
                fault,
            )
            return None
        return None if other == topic else other

    def _fault(self, other: str | None, *, is_filter: bool) -> str | None:
        if other is None:
            return "the client has no client id or user name that can stand in a topic"
        check = topic_filter_fault if is_filter else topic_name_fault
        return topic_fault(other, check(other, self._broker.router.levels_max))


def _values_of(message: Message) -> _Values:
    return {"clientid": message.clientid, "username": message.username}


def _first_for(rules: Sequence[_Rule], topic: str) -> _Rule | None:
    for rule in rules:
        if topic_matches(topic, rule.settings.source_topic):
            return rule
    return None


def _with_filter(entry: p.SubscribeEntry, topic_filter: str) -> p.SubscribeEntry:
    other = p.SubscribeEntry(topic_filter, entry.qos, entry.no_local, entry.retain_as_published, entry.retain_handling)
    other.code = entry.code
    return other
