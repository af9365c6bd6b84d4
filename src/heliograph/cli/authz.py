"""`heliograph authz`: tries rules of authorization, and finds the mistakes of a file of rules, without a broker."""

import argparse
import sys
from pathlib import Path
from typing import Final

from heliograph.cli.usage import Actions, example_of, fail

_BATCH: Final = """\
A case holds the rules, a client and an action; the answer is {"result": "allow"|"deny"|"nomatch"}:

  "rules": TEXT       the text of an acl.conf; or
  "rows": [...]       rule objects, as databases give them; or
  "acl": {...}|[...]  what a client carries, with "expire" and "now" in seconds since the epoch
  "client"            {"clientid", "username", "peerhost", "zone", "listener", "client_attrs", "cert_common_name"}
  "action", "qos", "retain", "topic"

Without "topic" the answer is {"result": "valid"}. Rules that are refused are answered with {"error": "..."}, and so is
a line that is no case. An "id" is echoed. The exit code is 0."""


def add_parser(subparsers: Actions) -> None:
    """Add `authz` to the command line."""
    parser = subparsers.add_parser(
        "authz",
        help="try rules of authorization",
        description="Try rules of authorization, and find the mistakes of an acl.conf, without a broker.",
        epilog=example_of("heliograph authz check acl.conf"),
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    check = actions.add_parser(
        "check",
        help="find the mistakes of a file of rules",
        description="Read a file of rules (acl.conf) and tell every mistake with its line and column. The exit code is "
        "1 if there is one.",
        epilog=example_of("heliograph authz check acl.conf"),
    )
    check.add_argument("file", metavar="FILE", help="the file; - for standard input")
    test = actions.add_parser(
        "test",
        help="say what rules decide",
        description="Read one case per line from standard input, as JSON, and write one answer per line.\n\n" + _BATCH,
        epilog=example_of(
            'echo \'{"rules": "{deny, all}.", "client": {}, "action": "publish", "topic": "a/b"}\' '
            "| heliograph authz test --batch"
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    test.add_argument("--batch", action="store_true", help="read cases from standard input")


def run(args: argparse.Namespace) -> int:
    """Carry out what the options ask for; the exit code."""
    if args.action == "check":
        return _check(args.file)
    if not args.batch:
        return fail("authz test", "give --batch, and cases on standard input", 2)
    from heliograph.cli.access_cases.authorization import authorization_case
    from heliograph.cli.access_cases.running import run_access_cases

    return run_access_cases(authorization_case)


def _check(name: str) -> int:
    from heliograph.access.acl.conf import read_acl_conf
    from heliograph.access.acl.errors import AclError

    try:
        text = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        return fail("authz check", f"{name} cannot be read: {error.strerror}")
    try:
        rules = read_acl_conf(text)
    except AclError as error:
        shown = "standard input" if name == "-" else name
        for fault in error.faults:
            print(f"{shown}:{fault.line}:{fault.column}: {fault.problem}", file=sys.stderr)
        count = len(error.faults)
        print(f"[{error.code}] {count} mistake{'s' if count > 1 else ''}", file=sys.stderr, flush=True)
        return 1
    for warning in rules.warnings:
        print(f"{name}: {warning}", file=sys.stderr)
    print(f"{len(rules)} rule{'' if len(rules) == 1 else 's'}, no mistakes", flush=True)
    return 0
