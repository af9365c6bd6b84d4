"""Runs `heliograph` commands for the recording: a line of JSON with `argv` and `stdin`, a line with the outcome back.

A program of its own: it loads the command line of the checkout that is recorded, once, and each command runs in a
copy of it. So a command costs a fork instead of a start of Python.
"""

import io
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Final

_BROKEN: Final = 99  # the exit code of a command that raised


def main() -> None:
    """Serve until the end of the input."""
    from heliograph.cli.main import main as run

    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):  # loads the modules of all commands
        for words in (["--help"], ["--data-dir", "none", "status"]):
            _code(run, ["ctl", *words])
    for line in sys.stdin:
        asked = json.loads(line)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "in").write_text(asked["stdin"])
            pid = os.fork()
            if pid == 0:
                for number, (file, flags) in enumerate(
                    [("in", os.O_RDONLY), ("out", os.O_WRONLY | os.O_CREAT), ("err", os.O_WRONLY | os.O_CREAT)]
                ):
                    os.dup2(os.open(folder / file, flags), number)
                os._exit(_code(run, asked["argv"]))
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            outcome = {"code": code, "out": (folder / "out").read_text(), "err": (folder / "err").read_text()}
        print(json.dumps(outcome), flush=True)


def _code(run: Callable[[list[str]], int], argv: list[str]) -> int:
    sys.argv = ["heliograph", *argv]
    try:
        return run(argv)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except Exception:  # noqa: BLE001 - what a command raises is recorded, too
        traceback.print_exc()
        return _BROKEN
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


if __name__ == "__main__":
    main()
