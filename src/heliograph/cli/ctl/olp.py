"""`ctl olp`: protection against overload."""

import argparse

from heliograph.cli.ctl.asking import add_command, add_group, asked
from heliograph.cli.ctl.printing import print_done, print_json
from heliograph.cli.usage import Actions
from heliograph.control.proto_v1 import olp as proto
from heliograph.rpc.asks import Ask
from heliograph.rpc.methods import NoArgs


def add_parser(actions: Actions) -> None:
    """Add `olp` and its commands."""
    group = add_group(
        actions,
        "olp",
        "show overload, and switch the protection against it",
        "Protection against overload. docs/overload.md says what is shed, and when.",
        "heliograph ctl olp status",
    )
    add_command(
        group,
        "status",
        "show whether the node is overloaded, what is measured and what was shed",
        "Show whether the node is overloaded, what is measured, and what is and was shed. Answered under overload too.",
        "heliograph ctl olp status",
    ).set_defaults(act=_status)
    for word, does in (("enable", "shed what may be shed"), ("disable", "shed nothing")):
        add_command(
            group,
            word,
            f"{does} while the node is overloaded",
            f"Makes the node {does} while it is overloaded: sets overload_protection.enable, which zones may override. "
            "The node need not be started again.",
            f"heliograph ctl olp {word}",
        ).set_defaults(act=_enable if word == "enable" else _disable)


def _status(args: argparse.Namespace) -> int:
    with asked(args) as node:
        status = node.ask(proto.OLP_STATUS())
    if args.json:
        print_json(status)
        return 0
    print(f"{status.node} is {'overloaded' if status.overloaded else 'not overloaded'}")
    print(f"protection is {'enabled' if status.enabled else 'disabled'}")
    for what in status.sheds:
        print(f"  {what}")
    for one in status.readings:
        print(f"{one.name:<18} {one.value:g} {one.unit}, too much from {one.threshold:g} {one.unit} on")
    for name, count in status.counts.items():
        print(f"{name:<34} {count:,}")
    return 0


def _enable(args: argparse.Namespace) -> int:
    return _switch(args, proto.OLP_ENABLE, "enabled")


def _disable(args: argparse.Namespace) -> int:
    return _switch(args, proto.OLP_DISABLE, "disabled")


def _switch(args: argparse.Namespace, ask: Ask[NoArgs, proto.OverloadSwitched], word: str) -> int:
    with asked(args) as node:
        done = node.ask(ask())
    return print_done(done, f"overload protection is {word} (revision {done.revision})", args.json)
