"""Cases as JSON lines on standard input, an answer each on standard output, in order.

JSON cannot say everything that the languages can, so both ways bytes that are not UTF-8 are `{"$base64": "..."}`, an
undefined value is `{"$undefined": true}`, and a long text may be written `{"$repeat": [text, count]}`. Integers and
floats stay apart.
"""

import sys
from collections.abc import Callable, Mapping
from typing import TypeAlias

from heliograph.rules.errors import EvaluationFault
from heliograph.rules.json_text import decode_exactly, encode_exactly
from heliograph.rules.values import Value

Case: TypeAlias = Mapping[str, Value]
Answer: TypeAlias = dict[str, Value]


class CaseError(Exception):
    """A line is no case; the message says why."""


def run_batch(answer: Callable[[Case], Answer | str], refusal: Case) -> int:
    """Answer every line; the exit code, 1 if a line was no case at all.

    Args:
        answer: Makes the answer of a case, or its line where it is JSON already; raises `CaseError` otherwise.
        refusal: What the answer to a line that is no case holds beside its error.
    """
    failed = False
    for number, line in enumerate(sys.stdin.buffer, start=1):
        if not line.strip():
            continue
        try:
            result: Answer | str = answer(read_case(line))
        except CaseError as error:
            failed = True
            result = {"error": f"line {number}: {error}", **refusal}
        # JSON is UTF-8 whatever the terminal's encoding is.
        sys.stdout.buffer.write((result if isinstance(result, str) else written(result)).encode() + b"\n")
        sys.stdout.flush()
    return 1 if failed else 0


def written(answer: Answer) -> str:
    """The line of an answer; one that cannot be written becomes the error that says why."""
    try:
        return encode_exactly(answer)
    except EvaluationFault as fault:
        return encode_exactly({"error": _unwritable(fault), "phase": "eval"})


def _unwritable(fault: EvaluationFault) -> str:
    """What is said of an output that JSON cannot say."""
    return f"the output cannot be shown as JSON: {fault}"


def read_case(line: bytes) -> Case:
    """The case of one line.

    Raises:
        CaseError: It is no JSON object.
    """
    try:
        case = decode_exactly(line)
    except (EvaluationFault, ValueError, RecursionError) as error:
        raise CaseError(str(error)) from None
    if not isinstance(case, dict):
        raise CaseError("a case must be a JSON object")
    return case


def text_of_case(case: Case, name: str) -> str:
    """A text of a case.

    Raises:
        CaseError: It is not there, or no text.
    """
    value = case.get(name)
    if not isinstance(value, str):
        raise CaseError(f'"{name}" must be there and be a text')
    return value


def texts_of_case(case: Case, name: str) -> dict[str, str]:
    """A map of texts of a case; empty where it is left out. Bytes that are not UTF-8 come as in `os.environ`.

    Raises:
        CaseError: It is something else.
    """
    contents = contents_of_case(case, name)
    return {
        key: content if isinstance(content, str) else content.decode("utf-8", "surrogateescape")
        for key, content in contents.items()
    }


def content_of_case(case: Case, name: str) -> str | bytes:
    """A text of a case, or bytes that are not text.

    Raises:
        CaseError: It is not there, or something else.
    """
    value = case.get(name)
    return value if isinstance(value, bytes) else text_of_case(case, name)


def contents_of_case(case: Case, name: str) -> dict[str, str | bytes]:
    """A map of texts, or of bytes that are not text; empty where it is left out.

    Raises:
        CaseError: It is something else.
    """
    value = case.get(name, {})
    if not isinstance(value, dict):
        raise CaseError(f'"{name}" must be an object of texts')
    contents: dict[str, str | bytes] = {}
    for key, content in value.items():
        if not isinstance(content, str | bytes):
            raise CaseError(f'"{name}" must be an object of texts, and "{key}" is not one')
        contents[key] = content
    return contents
