"""Programs of this package: modules that run as processes of their own."""

import asyncio
import sys
from collections.abc import Callable
from typing import Any, Final


class Programs:
    """Starts modules as processes. Owned by what starts them; it has no state of its own.

    Args:
        python: Returns the interpreter that runs them, or a program that stands for it; called at each start.
    """

    def __init__(self, python: Callable[[], str] = lambda: sys.executable) -> None:
        self._python = python

    async def start(self, module: str, *arguments: str, **options: Any) -> asyncio.subprocess.Process:
        """Start one; its caller ends it.

        Args:
            module: Its name, for `python -m`.
            arguments: Of its command line.
            options: Streams, environment and session, as `asyncio.create_subprocess_exec` takes them.

        Raises:
            OSError: It cannot be started.
        """
        return await asyncio.create_subprocess_exec(self._python(), "-m", module, *arguments, **options)


#: Those of this interpreter.
PROGRAMS: Final = Programs()
