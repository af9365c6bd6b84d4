"""`heliograph variform`: evaluates expressions, one by option or many as JSON lines."""

import argparse
import sys
from typing import TYPE_CHECKING

from heliograph.cli.usage import Actions, fail

if TYPE_CHECKING:
    from heliograph.cli.batch import Answer, Case
    from heliograph.rules.values import Value


def add_parser(subparsers: Actions) -> None:
    """Add `variform` to the command line."""
    parser = subparsers.add_parser(
        "variform",
        help="evaluate variform expressions",
        description="Evaluate expressions that make a string out of what is known of a client or a message.",
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    evaluate = actions.add_parser(
        "eval",
        help="evaluate an expression",
        description="Evaluate an expression and print the text that it gives. The exit code is 1 if it is refused or "
        'fails. With --batch, each line of standard input is a case {"expr", "bindings", "env"?}, which is answered '
        'with {"value"} or {"error", "phase"}; without "env" it sees the variables of this process.',
    )
    evaluate.add_argument("expression", nargs="?", metavar="EXPR", help="the expression")
    evaluate.add_argument("--bindings", metavar="JSON", default="{}", help="variables as a JSON object (default: none)")
    evaluate.add_argument("--batch", action="store_true", help="read cases from standard input")


def run(args: argparse.Namespace) -> int:
    """Evaluate what the options say; the exit code."""
    from heliograph.cli.batch import CaseError, read_case, run_batch
    from heliograph.rules.errors import EvaluationFault
    from heliograph.rules.values import bytes_of
    from heliograph.rules.variform import Variform, VariformError

    if args.batch == (args.expression is not None):
        return fail("variform", "give an expression, or --batch and cases on standard input")
    if args.batch:
        return run_batch(_answer, refusal={"phase": "parse"})
    try:
        text = Variform(args.expression).render(read_case(args.bindings.encode()))
    except VariformError as error:
        return fail("variform", f"[{error.code}] {error}")
    except (CaseError, EvaluationFault) as error:
        return fail("variform", f"--bindings: {error}")
    sys.stdout.buffer.write(bytes_of(text) + b"\n")
    sys.stdout.flush()
    return 0


def _answer(case: "Case") -> "Answer":
    from heliograph.cli.batch import CaseError, text_of_case, texts_of_case
    from heliograph.rules.environment import Environment
    from heliograph.rules.variform import Variform, VariformError, VariformSyntaxError

    expression, bindings = text_of_case(case, "expr"), case.get("bindings", {})
    if not isinstance(bindings, dict):
        raise CaseError('"bindings" must be an object')
    environment = Environment(variables=texts_of_case(case, "env") if "env" in case else None)
    try:
        value: Value = Variform(expression, environment).render(bindings)
    except VariformError as error:
        phase = "parse" if isinstance(error, VariformSyntaxError) else "eval"
        return {"error": str(error), "phase": phase}
    return {"value": value}
