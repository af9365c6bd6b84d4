"""Finds out whether the output of a command can still be written."""

import errno
import os
import select
import sys
from typing import Final

_REFUSALS: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def is_output_closed(error: OSError) -> bool:
    """Whether writing to a closed standard output failed, and not a socket."""
    if not isinstance(error, BrokenPipeError):
        return False
    try:
        output = sys.stdout.fileno()
    except ValueError:  # it is no file
        return False
    poll = select.poll()
    poll.register(output, 0)  # a closed other end is always reported
    return bool(poll.poll(0))


def is_output_refused(error: OSError) -> bool:
    """Whether it was the standard output that could not be written: its disk is full, for example."""
    if error.errno not in _REFUSALS or error.filename is not None:
        return False
    try:
        os.write(sys.stdout.fileno(), b"\n")  # the error does not say what could not be written
    except OSError as again:
        return again.errno == error.errno
    return False


def drop_output() -> None:
    """Let what is left of the output go nowhere, so that the end of the process does not fail at it again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def open_closed_output() -> None:
    """Discard what is printed where the standard output or error was closed before the start (`>&-`)."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  # for as long as the process lives


def counted(count: int, one: str, many: str = "") -> str:
    """A number of things: `1 ban`, `1,204 bans`.

    Args:
        many: The word for several; `one` with an s where it is empty.
    """
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"
