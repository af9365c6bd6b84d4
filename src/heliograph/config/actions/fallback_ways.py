"""Which actions fall back to which: who gets rows by that, and what of it leads nowhere."""

from collections.abc import Iterator

from heliograph.config.actions.fallbacks import FallbackReference
from heliograph.config.actions.roots import ActionSettings, Fault, all_actions
from heliograph.config.rules import RuleEngineConfig, rules_by_action


def references_of(actions: ActionSettings) -> dict[str, list[str]]:
    """The actions that each action falls back to, by ids as `http:my_action`; only those that have some."""
    found = {}
    for kind, name, action in all_actions(actions):
        if ids := [one.id for one in action.fallback_actions if isinstance(one, FallbackReference)]:
            found[f"{kind}:{name}"] = ids
    return found


def fallback_users(actions: ActionSettings, action_id: str) -> list[str]:
    """The actions that fall back to one."""
    return [user for user, ids in references_of(actions).items() if action_id in ids]


def actions_with_rows(engine: RuleEngineConfig, actions: ActionSettings) -> set[str]:
    """The actions that can get rows: those that a rule names, and those that these fall back to.

    A row that came to an action as a fallback does not fall back again.
    """
    named = set(rules_by_action(engine))
    return named.union(*(ids for user, ids in references_of(actions).items() if user in named))


def fallback_faults(actions: ActionSettings) -> Iterator[Fault]:
    """References that lead nowhere, or back to where they began."""
    references = references_of(actions)
    known = {f"{kind}:{name}" for kind, name, _ in all_actions(actions)}
    for user, ids in references.items():
        kind, _, name = user.partition(":")
        place = ("actions", kind, name, "fallback_actions")
        for action_id in ids:
            if action_id == user:
                yield place, f"{user} is its own fallback"
            elif action_id not in known:
                there_are = ", ".join(sorted(known)[:20])
                yield place, f"there is no action {action_id}; there are: {there_are}"
        if cycle := _cycle_at(user, references):
            yield place, f"the fallbacks form a cycle: {' -> '.join(cycle)}"


def _cycle_at(start: str, references: dict[str, list[str]]) -> list[str]:
    """A way from an action back to it over others, reported at the first of them by name; empty if there is none."""
    ways = [[start]]
    seen = set()
    while ways:
        way = ways.pop()
        for following in references.get(way[-1], ()):
            if following == start:
                if len(way) > 1 and start == min(way):
                    return [*way, start]
            elif following not in seen:
                seen.add(following)
                ways.append([*way, following])
    return []
