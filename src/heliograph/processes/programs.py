"""Programs of this package: modules that run as processes of their own."""

import asyncio
import sys
from collections.abc import Callable
from typing import Any, Final


class Programs:
    """Starts modules as processes; `python` returns the interpreter that runs them, or a program that stands for it."""

    def __init__(self, python: Callable[[], str] = lambda: sys.executable) -> None:
        self.python = python

    async def start(self, module: str, *arguments: str, **options: Any) -> asyncio.subprocess.Process:
        """Start `python -m module`, which the caller ends; `options` are those of `asyncio.create_subprocess_exec`."""
        return await asyncio.create_subprocess_exec(self.python(), "-m", module, *arguments, **options)

    async def fault(self, module: str, *arguments: str) -> str:
        """What a program that only judges something says against it; empty where its exit code is 0."""
        process = await self.start(
            module,
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        _, stderr = await process.communicate()
        return stderr.decode(errors="replace").strip() or "it ended without a reason" if process.returncode else ""


#: Those of this interpreter.
PROGRAMS: Final = Programs()
