"""`heliograph authn`: tries what authenticators do with credentials, without a broker."""

import argparse
import importlib
from typing import TYPE_CHECKING, Final

from heliograph.cli.usage import Actions, example_of, fail

if TYPE_CHECKING:
    from heliograph.cli.access_cases.running import AccessAnswer, AccessCase

# Each kind of case: the function of `cli.access_cases` that answers it.
KINDS: Final = {
    "hash": "stores.hash_case",
    "bootstrap": "stores.bootstrap_case",
    "scram_keys": "stores.scram_keys_case",
    "cidr": "stores.cidr_case",
    "placeholder": "placeholders.placeholder_case",
    "jwt": "authenticators.jwt_case",
    "cinfo": "authenticators.cinfo_case",
    "http_authn": "authenticators.http_authn_case",
    "http_authz": "authenticators.http_authz_case",
    "ldap_hash": "stores.ldap_hash_case",
    "redis_cmd": "stores.redis_command_case",
}


def add_parser(subparsers: Actions) -> None:
    """Add `authn` to the command line."""
    parser = subparsers.add_parser(
        "authn",
        help="try what authenticators do with credentials",
        description="Try what authenticators do with credentials, without a broker.",
        epilog=example_of("heliograph authn test --batch < cases.jsonl"),
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    test = actions.add_parser(
        "test",
        help="answer cases of authentication",
        description="Read one case per line from standard input, as JSON, and write one answer per line. "
        f'The "kind" of a case is one of {", ".join(KINDS)}; docs/authentication.md says what each needs. An "id" is '
        'echoed. A case that cannot be answered gets {"error": "..."}. The exit code is 0.',
        epilog=example_of(
            'echo \'{"kind":"hash","algorithm":{"name":"plain"},"stored":"secret","password":"secret"}\' '
            "| heliograph authn test --batch"
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    test.add_argument("--batch", action="store_true", help="read cases from standard input")


def run(args: argparse.Namespace) -> int:
    """Answer the cases on standard input; the exit code."""
    from heliograph.cli.access_cases.running import run_access_cases

    if not args.batch:
        return fail("authn test", "give --batch, and cases on standard input", 2)
    return run_access_cases(_answer)


def _answer(case: "AccessCase") -> "AccessAnswer":
    from heliograph.cli.batch import CaseError

    kind = case.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise CaseError(f'"kind" is {kind!r}; {", ".join(KINDS)} are valid')
    module, _, function = KINDS[kind].partition(".")
    answered: AccessAnswer = getattr(importlib.import_module(f"heliograph.cli.access_cases.{module}"), function)(case)
    return answered
