"""Kinds of settings that schema validation and message transformation share.

Both stand in lists whose order counts, and name the topics that they are for and what happens when they fail.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from heliograph.settings.fields import ListOf, list_setting, section, setting
from heliograph.settings.kinds import AnyText, Boolean, Choice, Text, TopicFilters

LEVELS: Final = ("error", "warning", "notice", "info", "debug", "none")

_BUILT_IN: Final = {"sparkplug_b": "protobuf"}  # schemas that every registry has

_POLICY_NAME: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z_.-]{0,255}")


class MessagePolicyName(Text):
    """The name of a validation or transformation."""

    def __init__(self) -> None:
        super().__init__(
            "a name of letters, digits, _, . and -, beginning with a letter or digit", _POLICY_NAME.pattern
        )


@dataclass(frozen=True, slots=True)
class LogFailure:
    """How failures are logged."""

    level: str = setting(
        Choice(*LEVELS), "info", "Severity of the log entry of a failure, a few of them a minute; none for no entry."
    )


@dataclass(frozen=True, slots=True)
class MessagePolicy:
    """What every entry of such a list begins with."""

    name: str = setting(MessagePolicyName(), "", "Its name, in metrics, log entries and events.")
    tags: tuple[str, ...] = list_setting(ListOf(Text()), (), "Words to find it by.")
    description: str = setting(AnyText(), "", "What it is for.")
    enable: bool = setting(Boolean(), True, "Whether it takes part.")
    topics: tuple[str, ...] = setting(TopicFilters(), (), "Which messages it is for.")
    failure_action: str = setting(
        Choice("drop", "disconnect", "ignore"),
        "drop",
        "What happens to a message that fails: it is dropped, its publisher is disconnected too, or nothing.",
    )
    log_failure: LogFailure = section(LogFailure, "How failures are logged.")


def list_faults(policies: Sequence[MessagePolicy], kind: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """What is missing from the entries of a list, or there twice: path below the group of the list, and fault.

    Args:
        kind: What an entry is called; the list has the name of several.
    """
    root = f"{kind}s"
    seen: dict[str, int] = {}
    for number, policy in enumerate(policies, 1):
        if not policy.name:
            yield (
                (root, str(number)),
                f"the {kind} has no name: give it one, by which its metrics and log entries are found",
            )
            continue
        if policy.name in seen:
            yield (
                (root, str(number), "name"),
                f'found "{policy.name}", which is the name of {kind} {seen[policy.name]} too',
            )
        seen.setdefault(policy.name, number)
        if not policy.topics:
            yield (root, str(number)), f'the {kind} "{policy.name}" has no topics: say which messages it is for'


def schema_fault(kind: str, name: str, types: Mapping[str, str]) -> str | None:
    """Why no schema of that name and kind can be used while a message is published; None if it can.

    Args:
        types: The type of each schema of the registry.
    """
    found = _BUILT_IN.get(name) or types.get(name)
    if found is None:
        known = ", ".join(types) or "none"
        return (
            f'found "{name}", but there is no such schema; there are: {known}. Describe it in schema_registry.schemas'
        )
    if found == "external_http":
        return f'found "{name}", which asks another service; a publish does not wait for an answer'
    return None if found == kind else f'found "{name}", which is of type {found}, not {kind}'


def setting_fault(subject: str, needed: Sequence[str], given: Mapping[str, str]) -> str | None:
    """What a group of settings lacks for its type, or has that its type does not; None for nothing.

    Args:
        subject: What the group is, to begin the sentence.
        needed: Which of them its type needs; it has no others.
        given: All of them; empty ones are absent.
    """
    missing = [name for name in needed if not given[name]]
    if missing:
        return f"{subject} needs {' and '.join(missing)} too"
    surplus = [name for name, value in given.items() if value and name not in needed]
    return f"{subject} has no {' and '.join(surplus)}" if surplus else None
