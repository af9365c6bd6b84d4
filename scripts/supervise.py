"""Runs a program and ends every process that it has started, however it ends. The targets of the Makefile use it.

    python scripts/supervise.py [--limit SECONDS] PROGRAM [ARGUMENT...]

The program runs in a session of its own. Ctrl-C, SIGTERM and SIGHUP reach its whole process group, and two seconds
later what still runs is killed. So is what outlives the program, also in a session of its own: the kernel gives this
process the orphans of those below it. The standard library is enough, as it also runs before any set-up.

The exit code is the program's; 128 and the signal's number where a signal ended one of the two; 124 at the limit.
"""

import argparse
import ctypes
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

GRACE_S: Final = 2.0  # Ctrl-C ends everything within five seconds, also on a busy machine
_LIMIT_GRACE_S: Final = 30.0  # not at a keyboard: programs print where they hang
_AT_LIMIT: Final = 124  # as `timeout` has it
_SIGNALS: Final = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36


def main() -> int:
    """Run the program of the command line; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--limit", type=float, metavar="SECONDS", help="when the program is ended")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if not options.command:
        parser.error("name a program")
    return run(options.command, options.limit)


def run(command: list[str], limit_s: float | None = None) -> int:
    """Run a program to its end, and end what it leaves.

    Args:
        command: The program and its arguments.
        limit_s: Seconds after which the program is ended.
    """
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS | {signal.SIGCHLD})
    program = os.fork()
    if program == 0:
        _become(command)
    status, received = _wait(program, limit_s)
    _kill_descendants()
    if received is not None:
        return _AT_LIMIT if received == signal.SIGALRM else 128 + received
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _become(command: list[str]) -> None:
    """The program, in the process that was forked for it."""
    try:
        os.setsid()
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        # A shell's job in the background ignores SIGINT and SIGQUIT, and so would all that tests start.
        for number in _SIGNALS | {signal.SIGQUIT}:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS | {signal.SIGCHLD})
        os.execvp(command[0], command)
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
    finally:
        os._exit(127)


def _wait(program: int, limit_s: float | None) -> tuple[int, int | None]:
    """Wait for the end of the program, which signals and the limit bring nearer.

    Returns:
        The program's status, and the signal that was received; SIGALRM stands for the limit.
    """
    deadline = None if limit_s is None else time.monotonic() + limit_s
    received: int | None = None
    while True:
        status = _reap(program)
        if status is not None:
            return status, received
        found = _next_signal(deadline)
        if found == signal.SIGCHLD:
            continue
        if received is not None:  # the grace period is over, or a second Ctrl-C does not wait for it
            return 0, received
        received = found
        if found == signal.SIGALRM:
            print(f"not done after {limit_s:g} s", file=sys.stderr, flush=True)
        with suppress(ProcessLookupError):
            os.killpg(program, signal.SIGTERM if found == signal.SIGALRM else found)
        deadline = time.monotonic() + (_LIMIT_GRACE_S if found == signal.SIGALRM else GRACE_S)


def _next_signal(deadline: float | None) -> int:
    """Wait for a signal; SIGALRM at the deadline."""
    signals = _SIGNALS | {signal.SIGCHLD}
    if deadline is None:
        return signal.sigwaitinfo(signals).si_signo
    found = signal.sigtimedwait(signals, max(0.0, deadline - time.monotonic()))
    return signal.SIGALRM if found is None else found.si_signo


def _reap(program: int) -> int | None:
    """Forget the processes that have ended; the status of the program, if it is one of them."""
    status = None
    with suppress(ChildProcessError):
        while True:
            pid, ended_with = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == program:
                status = ended_with
    return status


def _kill_descendants() -> None:
    """Kill all processes below this one, until there are none: those below a killed one become children of this one."""
    while True:
        children = _children_of_all()
        found = list(children.get(os.getpid(), ()))
        if not found:
            return
        own = tuple(found)
        for pid in found:  # it grows meanwhile
            found += children.get(pid, ())
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in own:
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _children_of_all() -> dict[int, list[int]]:
    """The children of every process that has some."""
    found: dict[int, list[int]] = {}
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit():
            with suppress(OSError):
                parent = int((directory / "stat").read_bytes().rpartition(b")")[2].split()[1])
                found.setdefault(parent, []).append(int(directory.name))
    return found


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    sys.exit(main())
