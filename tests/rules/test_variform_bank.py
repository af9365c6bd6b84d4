"""Variform over the bank of its cases."""

import pytest

from heliograph.rules.environment import VARIABLE_PREFIX, Environment
from heliograph.rules.values import Value
from heliograph.rules.variform import Variform, VariformEvaluationError, VariformSyntaxError
from rules.bank_variform import BINDINGS, ENVIRONMENT, FAILURES, NO_EXPRESSIONS, OTHERS, RESULTS
from support.cases import cases


def _expression(text: str) -> Variform:
    variables = {f"{VARIABLE_PREFIX}{name}": text for name, text in ENVIRONMENT.items()}
    return Variform(text, Environment(variables=variables))


@cases(("text", "result"), RESULTS)
def test_gives(text: str, result: str | bytes) -> None:
    assert _expression(text).render(BINDINGS) == result


@cases(("text", "bindings", "result"), OTHERS)
def test_gives_with_other_bindings(text: str, bindings: dict[str, Value], result: str) -> None:
    assert _expression(text).render(bindings) == result


@cases("text", FAILURES)
def test_fails(text: str) -> None:
    with pytest.raises(VariformEvaluationError):
        _expression(text).render(BINDINGS)


@cases("text", NO_EXPRESSIONS)
def test_is_no_expression(text: str) -> None:
    with pytest.raises(VariformSyntaxError):
        _expression(text)
