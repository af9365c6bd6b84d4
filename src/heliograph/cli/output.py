"""Tells whether somebody still reads what a command prints."""

import select
import sys


def is_output_closed(error: OSError) -> bool:
    """Whether it is the failure of writing to a standard output that nobody reads any more, and not of a socket."""
    if not isinstance(error, BrokenPipeError):
        return False
    try:
        output = sys.stdout.fileno()
    except ValueError:  # it is no file
        return False
    poll = select.poll()
    poll.register(output, 0)  # that the other end is gone is told unasked
    return bool(poll.poll(0))
