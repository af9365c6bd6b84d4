"""The table of hook points against docs/hooks.md, and what plugins may rely on."""

import re
import types
from pathlib import Path
from typing import get_args

from heliograph.broker import authentication, hook_order, hooks, pending
from heliograph.broker.hooks import HOOK_POINTS, HookSpec
from support.cases import cases

PAGE = (Path(__file__).parents[2] / "docs" / "hooks.md").read_text(encoding="utf-8")

# The public names: one that goes, or changes its meaning, breaks plugins. Constants of hook points come from the table.
PUBLIC = {
    "CLOSED", "CLOSED_UNLESS_DECIDED", "FAILED", "HOOK_POINTS", "NAMES", "OK", "OPEN", "SPECS", "STOP", "WAITS",
    "AlarmCallback", "AuthnCompleteCallback", "AuthzCompleteCallback", "Callback", "ClientAuthenticateCallback",
    "ClientAuthorizeCallback", "ClientConnackCallback", "ClientConnectCallback", "ClientConnectedCallback",
    "ClientDisconnectedCallback", "ClientSubscribeCallback", "ClientUnsubscribeCallback", "ConfigChangedCallback",
    "DeferredAck", "DeliveryCallback", "DeliveryDroppedCallback", "HookPoint", "HookSpec", "Hooks",
    "MessageDroppedCallback", "MessagePublishCallback",
    "LateAnswerError", "Pending", "PendingChain", "PolicyFailedCallback", "Refusal", "RewriteOnly", "SessionCallback",
    "SubscriptionCallback",
}  # fmt: skip


def rows() -> dict[str, list[str]]:
    """The rows of the page's tables of hook points by name, without it."""
    found = re.findall(r"^\| `(\w+\.\w+)` \| (.*) \|$", PAGE, re.MULTILINE)
    return {name: [cell.strip() for cell in row.split(" | ")] for name, row in found}


def shown(kind: object) -> str:
    """A type as the page writes it."""
    if isinstance(kind, types.UnionType):
        return " or ".join(shown(one) for one in get_args(kind))
    if kind is types.NoneType:
        return "None"
    if isinstance(kind, types.GenericAlias):
        return repr(kind).replace(f"{get_args(kind)[0].__module__}.", "")
    return str(getattr(kind, "__forward_arg__", getattr(kind, "__name__", kind)))


def argument_types(spec: HookSpec) -> list[object]:
    """What a callback gets, the accumulator last."""
    return list(get_args(spec.callback)[0])


@cases("spec", HOOK_POINTS, ids=lambda spec: spec.name)
def test_the_page_says_what_the_table_says(spec: HookSpec) -> None:
    row = rows()[spec.name]
    kinds = argument_types(spec)
    names = spec.arguments.split()
    assert len(kinds) == len(names) + 1
    told = ", ".join(f"{name}: {shown(kind)}" for name, kind in zip(names, kinds[:-1], strict=True))
    assert row[0] == (told or "nothing")
    if spec.begins_with:
        cells = [cell.replace("`", "") for cell in row]
        assert cells[-3:] == [spec.begins_with, spec.fails, "yes" if spec.may_wait else "no"]
        accumulator = "AuthOutcome" if kinds[-1] == authentication.AuthOutcome else shown(kinds[-1])
        assert row[-4].startswith(accumulator)
    else:
        assert (kinds[-1], spec.fails, spec.may_wait) == (None, hooks.OPEN, False)


def test_the_page_knows_every_hook_point_and_no_other() -> None:
    assert set(rows()) == {spec.name for spec in HOOK_POINTS} == set(hooks.NAMES)


def test_the_page_gives_the_order_of_the_broker_s_own_callbacks() -> None:
    section = PAGE.partition("## The order of callbacks")[2].partition("\n## ")[0]
    found = re.findall(r"^\| (-?[\d,]+) \| (.*) \|$", section, re.MULTILINE)
    assert [(what, int(priority.replace(",", ""))) for priority, what in found] == list(hook_order.PRIORITIES.items())
    priorities = list(hook_order.PRIORITIES.values())
    assert priorities == sorted(set(priorities), reverse=True)


def test_every_hook_point_is_an_attribute_too() -> None:
    chains = hooks.Hooks()
    for name in hooks.NAMES:
        assert getattr(chains, name.replace(".", "_")) is chains.point(name)


def test_what_is_public() -> None:
    constants = {name.replace(".", "_").upper() for name in hooks.NAMES}
    assert set(hooks.__all__) == PUBLIC | constants
    assert all(hasattr(hooks, name) for name in hooks.__all__)
    assert authentication.__all__ == ["AuthAttempt", "AuthOutcome", "AuthStep", "Grants"]
    assert pending.__all__ == ["Pending"]


def test_the_page_names_what_is_public() -> None:
    section = PAGE.partition("## What is public")[2].partition("\n## ")[0]
    named = set(re.findall(r"`(heliograph\.[a-z_.]+)", section))
    assert named >= {module.__name__ for module in (hooks, hook_order, authentication)}
    assert "heliograph.broker.pending." in named
