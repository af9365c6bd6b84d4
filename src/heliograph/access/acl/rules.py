"""Rules: which clients, actions and topics they are about, and whether they allow. The first one that matches decides.

For each client they are prepared once: conditions are evaluated, placeholders filled in, topics indexed. What does not
depend on the client is shared by all clients of the same rules.
"""

from collections.abc import Sequence
from typing import Final

from mypy_extensions import i64

from heliograph.access.acl.conditions import CheckedClient, Condition, Equals, clientid_of, username_of
from heliograph.access.acl.index import NO_RULE, ActionIndexes, TopicEntry
from heliograph.access.acl.topics import RuleTopic
from heliograph.access.templates.values import client_values
from heliograph.broker.actions import ALLOW, DENY, Action
from heliograph.broker.client import ClientInfo

# Combinations of rules that clients share; when there are more, the indexes are made again.
_SHARED_MAX: Final = 1000
_TEXT_MAX: Final = 500


class Rule:
    """One rule; never changed.

    Args:
        actions: A bit for each action that it is about, by the action's number.
        text: How it is written, for people; `line` is its line, 0 if it has none.
    """

    def __init__(
        self,
        is_allowing: bool,
        condition: Condition | None,
        actions: i64,
        topics: Sequence[RuleTopic],
        text: str,
        line: i64 = 0,
    ) -> None:
        self.is_allowing = is_allowing
        self.condition = condition
        self.actions: i64 = actions
        self.topics = list(topics)
        self.text = text
        self.line: i64 = line

    @property
    def verdict(self) -> str:
        return ALLOW if self.is_allowing else DENY

    def is_about(self, checked: CheckedClient) -> bool:
        """Whether it is about a client. If that cannot be said in time, it is if it denies, and is not if it allows."""
        if self.condition is None:
            return True
        held = self.condition.holds(checked)
        return not self.is_allowing if held is None else held

    def __repr__(self) -> str:
        return f"Rule({self.text})"


class ClientRules:
    """Rules as they are for one client; valid as long as what the client is does not change.

    Args:
        shared: The topics that are the same for other clients.
        own: Those that hold the client's values; None for none.
    """

    def __init__(self, rules: list[Rule], shared: ActionIndexes, own: ActionIndexes | None) -> None:
        self._rules = rules
        self._shared = shared
        self._own = own

    def check(self, action: Action, topic: str) -> Rule | None:
        """The first rule that matches, or None; a filter of a subscription comes without its group."""
        found = self._shared.find(action.number, topic)
        if self._own is not None:
            own = self._own.find(action.number, topic)
            if own < found:
                found = own
        return None if found == NO_RULE else self._rules[found]


class Rules:
    """Rules in their order; never changed, and shared by all clients.

    A file may hold some rules for each of thousands of user names: those that name one are found by it.
    """

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = list(rules)
        # By rule: its topics that are the same for all clients.
        self._fixed = [_entries(rule, at, {}, False) for at, rule in enumerate(self.rules)]
        self._placed = [any(topic.has_places for topic in rule.topics) for rule in self.rules]
        # The places of rules: about all clients, about one user name, about one client id, and about those that hold.
        self._always: list[int] = []
        self._by_username: dict[str, list[int]] = {}
        self._by_clientid: dict[str, list[int]] = {}
        self._conditional: list[int] = []
        self._shared: dict[tuple[int, ...], ActionIndexes] = {}
        for at, rule in enumerate(self.rules):
            self._place(at, rule.condition)

    def __len__(self) -> int:
        return len(self.rules)

    @property
    def warnings(self) -> list[str]:
        """What looks like a placeholder and is not one, with its line."""
        return [
            f"line {rule.line}: ${{{name}}} is no placeholder in the topic of a rule, so it stays as it is"
            for rule in self.rules
            for topic in rule.topics
            for name in topic.unknown
        ]

    def prepared(self, client: ClientInfo) -> ClientRules:
        """The rules for a client; to be made again when its name, address or attributes change."""
        about = tuple(self._about(client))
        shared = self._shared.get(about)
        if shared is None:
            if len(self._shared) >= _SHARED_MAX:
                self._shared.clear()
            shared = ActionIndexes([entry for at in self._with_always(about) for entry in self._fixed[at]])
            self._shared[about] = shared
        return ClientRules(self.rules, shared, self._own(client, about))

    def check(self, client: ClientInfo, action: Action, topic: str) -> Rule | None:
        return self.prepared(client).check(action, topic)

    def _place(self, at: int, condition: Condition | None) -> None:
        if condition is None:
            self._always.append(at)
        elif isinstance(condition, Equals) and condition.field is username_of:
            self._by_username.setdefault(condition.text, []).append(at)
        elif isinstance(condition, Equals) and condition.field is clientid_of:
            self._by_clientid.setdefault(condition.text, []).append(at)
        else:
            self._conditional.append(at)

    def _about(self, client: ClientInfo) -> list[int]:
        """The places of the rules that are about a client but not about all."""
        about: list[int] = []
        if client.username is not None:
            about += self._by_username.get(client.username, ())
        about += self._by_clientid.get(client.clientid, ())
        if self._conditional:
            checked = CheckedClient(client)
            about += [at for at in self._conditional if self.rules[at].is_about(checked)]
        about.sort()
        return about

    def _with_always(self, about: tuple[int, ...]) -> list[int]:
        return sorted([*self._always, *about]) if about else self._always

    def _own(self, client: ClientInfo, about: tuple[int, ...]) -> ActionIndexes | None:
        placed = [at for at in self._with_always(about) if self._placed[at]]
        if not placed:
            return None
        values = client_values(client)
        return ActionIndexes([entry for at in placed for entry in _entries(self.rules[at], at, values, True)])


def shortened(text: str) -> str:
    return text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}..."


def _entries(rule: Rule, at: int, values: dict[str, str], has_places: bool) -> list[TopicEntry]:
    """The topics of a rule, those with or those without placeholders."""
    topics = [topic for topic in rule.topics if topic.has_places == has_places]
    entries = [topic.entry(at, rule.actions, rule.is_allowing, values) for topic in topics]
    return [entry for entry in entries if entry is not None]
