"""Cases of access control as JSON lines on standard input, an answer each on standard output, in order."""

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

from heliograph.cli.batch import CaseError
from heliograph.settings.reading import group_of_plain

AccessCase: TypeAlias = Mapping[str, Any]
AccessAnswer: TypeAlias = dict[str, object]
Group = TypeVar("Group")


def run_access_cases(answer: Callable[[AccessCase], AccessAnswer]) -> int:
    """Answer every line that is not blank; the exit code, 0 since each is answered.

    Args:
        answer: Makes the answer of a case; raises `CaseError` where it is not one.
    """
    for number, line in enumerate(sys.stdin.buffer, 1):
        if not line.strip():
            continue
        answered = _answered(answer, line, number)
        sys.stdout.write(_line_of(answered) + "\n")
        sys.stdout.flush()
    return 0


def _answered(answer: Callable[[AccessCase], AccessAnswer], line: bytes, number: int) -> AccessAnswer:
    try:
        case = json.loads(line, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        return {"error": f"line {number} is no JSON: {error}"}
    if not isinstance(case, dict):
        return {"error": f"line {number} is no JSON object"}
    named = {"id": case["id"]} if "id" in case else {}
    try:
        return {**named, **answer(case)}
    except CaseError as error:
        return {**named, "error": str(error)}
    except Exception as error:  # noqa: BLE001 - ours to mend, and the cases behind it get their answers
        return {**named, "error": f"{type(error).__name__}: {error}"}


def _line_of(answered: AccessAnswer) -> str:
    try:
        return json.dumps(answered, allow_nan=False)
    except (ValueError, RecursionError):  # of its id, or of a value that a token holds
        return json.dumps({"error": "the answer cannot be written as JSON"})


def _refuse_constant(word: str) -> float:
    raise ValueError(f"{word} is no value of JSON")


def text_in(case: AccessCase, name: str, default: str | None = None) -> str:
    """A text of a case.

    Raises:
        CaseError: It is not there, or no text.
    """
    value = case.get(name, default)
    if not isinstance(value, str):
        raise CaseError(f'"{name}" must be there and be a text')
    return value


def bytes_in(case: AccessCase, name: str) -> bytes:
    """A text of a case as the bytes that a client would send; half a surrogate pair stays as it is.

    Raises:
        CaseError: It is not there, or no text.
    """
    return text_in(case, name).encode("utf-8", "surrogatepass")


def group_in(case: AccessCase, name: str, model: type[Group]) -> Group:
    """A group of settings in a case, read with all checks of a configuration; the defaults where it is left out.

    Raises:
        CaseError: A configuration with it is refused.
    """
    group, problems = group_of_plain(model, case.get(name), name)
    if group is None or problems:
        raise CaseError("; ".join(f"{problem.path}: {problem.message}" for problem in problems))
    return group
