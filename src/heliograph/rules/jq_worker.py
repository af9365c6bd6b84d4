"""The process that runs jq programs: reads requests from standard input, answers on standard output, until that ends.

It runs as a program of its own and imports nothing of Heliograph, so that it starts in some tens of milliseconds and
may be killed at any moment. `heliograph.rules.jq_process` is the other side. A request is a `REQUEST` header
and two texts, the program and a JSON document; an answer is an `ANSWER` header and a text, which is a JSON array of all
outputs or, if the status is not `DONE`, why there are none.
"""

import os
import resource
import signal
import struct
import sys
from collections import OrderedDict
from typing import Any, BinaryIO, Final

import jq

REQUEST: Final = struct.Struct(">IId")
"""Bytes of the program, bytes of the document, and after how many seconds the worker ends itself."""
ANSWER: Final = struct.Struct(">BI")
"""Status and bytes of the text."""
READY: Final = b"R"
"""Sent once, as soon as requests are read."""
DONE: Final = 0
FAILED: Final = 1

_NICENESS: Final = 5
_PROGRAMS_MAX: Final = 128
_OUTPUT_BYTES_MAX: Final = 16 * 1024 * 1024
_MEMORY_BYTES_MAX: Final = 1024 * 1024 * 1024


class Refused(Exception):  # noqa: N818 - a program is refused or fails; the text says why
    pass


def _answer_requests(source: BinaryIO, target: BinaryIO) -> None:
    programs: OrderedDict[str, Any] = OrderedDict()
    while header := source.read(REQUEST.size):
        program_bytes, document_bytes, seconds = REQUEST.unpack(header)
        # Not handled, so it ends the process wherever it is: a program that never ends does not outlive a parent that
        # was killed and cannot stop it.
        signal.setitimer(signal.ITIMER_REAL, seconds)
        text, document = source.read(program_bytes).decode(), source.read(document_bytes).decode()
        try:
            status, answer = DONE, _outputs_of(compiled(text, programs), document).encode()
        except Refused as problem:
            status, answer = FAILED, str(problem).encode(errors="replace")
        signal.setitimer(signal.ITIMER_REAL, 0)
        target.write(ANSWER.pack(status, len(answer)) + answer)
        target.flush()


def compiled(text: str, programs: "OrderedDict[str, Any]") -> Any:
    """The compiled program, whose outputs are JSON texts; the latest are kept."""
    program = programs.get(text)
    if program is not None:
        programs.move_to_end(text)
        return program
    program = _compiled(text)
    programs[text] = program
    if len(programs) > _PROGRAMS_MAX:
        programs.popitem(last=False)
    return program


def _compiled(text: str) -> Any:
    if "\0" in text:
        raise Refused("a program holds no NUL")
    try:
        jq.compile(text)
    except ValueError as error:
        raise Refused(_without_names(str(error))) from None
    try:
        # Texts, because the numbers of this package are floats, and jq itself keeps the digits of those it only moves.
        return jq.compile(f"({text}\n) | tojson")
    except ValueError:
        # Parentheses around it leave this to fail: a rule must not read files of this machine.
        raise Refused("a program cannot import or include others") from None


def _without_names(problem: str) -> str:
    """What the compiler says, without its own name and the count at the end."""
    return problem.removeprefix("jq: error: ").partition("\njq: ")[0].rstrip()


def _outputs_of(program: Any, document: str) -> str:
    outputs: list[str] = []
    size = 0
    try:
        for output in program.input_text(document):
            outputs.append(output)
            size += len(output) + 1
            if size > _OUTPUT_BYTES_MAX:
                raise Refused(f"the outputs are longer than {_OUTPUT_BYTES_MAX:,} bytes")
    except ValueError as error:
        raise Refused(str(error)) from None
    return f"[{','.join(outputs)}]"


def main() -> None:
    # Programs can read the environment ($ENV), which may hold secrets of that process.
    os.environ.clear()
    # A program that never ends must not take half of the core that it may share with the broker; no lower, since on a
    # busy machine programs that do end must come to their end in time.
    os.nice(_NICENESS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES_MAX, _MEMORY_BYTES_MAX))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    target = sys.stdout.buffer
    target.write(READY)
    target.flush()
    _answer_requests(sys.stdin.buffer, target)


if __name__ == "__main__":
    main()
