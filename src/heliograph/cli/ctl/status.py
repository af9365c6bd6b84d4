"""`ctl status`: whether a node lives, and whether it is ready; its exit code says so to machines."""

import argparse
from typing import Final

from heliograph.cli.ctl.asking import add_command, answer_of
from heliograph.cli.ctl.printing import print_json, text_of
from heliograph.cli.output import counted
from heliograph.cli.usage import Actions
from heliograph.control.proto_v1.node import NODE_STATUS

_READY: Final = "ready"
_TIMEOUT_S: Final = 10.0


def add_parser(actions: Actions) -> None:
    """Add `status`."""
    parser = add_command(
        actions,
        _status,
        "status",
        "say whether the node is ready, and if not, why",
        "heliograph ctl status --data-dir /var/lib/heliograph || systemctl restart heliograph",
        "heliograph ctl status --ready",
    )
    parser.add_argument("--ready", action="store_true", help="end with 1 if the node is degraded")


def _status(args: argparse.Namespace) -> int:
    """Say whether the node is ready. Exit code 0: it answers; 3: no node answers. With --ready 1: it is degraded, for
    the reasons that are printed: parts that cannot do their work, and alarms of that, but not being busy. Settings that
    were changed and hold from the next start on are listed; a node that has some is ready.
    """
    status = answer_of(args, NODE_STATUS(), timeout_s=_TIMEOUT_S)
    if args.json:
        print_json(status)
    else:
        print(
            f"{status.name} is {status.state}: heliograph {status.version}, process {status.pid}, up for "
            f"{duration(status.uptime_s)}, {counted(status.connections, 'connection')}, "
            f"{counted(status.sessions, 'session')}"
        )
        for place in status.places:
            print(f"  {place}")
        if status.waiting:
            print(f"with the next start: {', '.join(map(text_of, status.waiting))}")
        for reason in status.reasons:
            print(f"degraded: {text_of(reason.what)}: {text_of(reason.message)}")
    return 1 if args.ready and status.state != _READY else 0


def duration(seconds: int) -> str:
    """Seconds for people: `3d 4h`, `5m 12s`."""
    parts = []
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "m"), (1, "s")):
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2]) or "0s"
