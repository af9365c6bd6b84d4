"""Programs of this package: modules that run as processes of their own."""

import asyncio
import sys
from collections.abc import Callable
from typing import Any, Final


class Programs:
    """Starts modules as processes; `python` returns the interpreter that runs them, or a program that stands for it."""

    def __init__(self, python: Callable[[], str] = lambda: sys.executable) -> None:
        self._python = python

    async def start(self, module: str, *arguments: str, **options: Any) -> asyncio.subprocess.Process:
        """Start `python -m module`, which the caller ends; `options` are those of `asyncio.create_subprocess_exec`."""
        return await asyncio.create_subprocess_exec(self._python(), "-m", module, *arguments, **options)


#: Those of this interpreter.
PROGRAMS: Final = Programs()
