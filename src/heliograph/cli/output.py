"""Finds out whether the output of a command is still read."""

import select
import sys


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
