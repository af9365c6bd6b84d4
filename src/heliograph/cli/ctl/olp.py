"""`ctl olp`: protection against overload."""

import argparse

from heliograph.cli.ctl.asking import add_command, add_group, answer_of
from heliograph.cli.ctl.printing import print_done, print_json
from heliograph.cli.usage import Actions
from heliograph.control.proto_v1 import olp as proto


def add_parser(actions: Actions) -> None:
    """Add `olp` and its commands."""
    group = add_group(
        actions,
        "olp",
        "show overload, and switch the protection against it",
        "Protection against overload. docs/overload.md says what is shed, and when.",
        "heliograph ctl olp status",
    )
    add_command(group, _status, "status", "show whether the node is overloaded, what is measured and what was shed")
    for word, does in (("enable", "shed what may be shed"), ("disable", "shed nothing")):
        add_command(
            group,
            _switch,
            word,
            f"{does} while the node is overloaded",
            f"heliograph ctl olp {word}",
            description=f"Makes the node {does} while it is overloaded: sets overload_protection.enable, which zones "
            "may override. The node need not be started again.",
        )


def _status(args: argparse.Namespace) -> int:
    """Show whether the node is overloaded, what is measured, and what is and was shed. Answered under overload too."""
    status = answer_of(args, proto.OLP_STATUS())
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


def _switch(args: argparse.Namespace) -> int:
    ask, word = (proto.OLP_ENABLE, "enabled") if args.olp_command == "enable" else (proto.OLP_DISABLE, "disabled")
    done = answer_of(args, ask())
    return print_done(done, f"overload protection is {word} (revision {done.revision})", args.json)
