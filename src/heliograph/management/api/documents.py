"""The document of the API, made by a process of its own when it is first asked for, and kept compressed."""

import asyncio
import zlib
from typing import Final

import orjson

from heliograph.management.web.errors import ApiError
from heliograph.processes.programs import Programs

_MODULE: Final = "heliograph.management.document"
_END_S: Final = 120.0


class Documents:
    """The forms of the document; owned by the application.

    Args:
        programs: Starts the process that makes them.
    """

    def __init__(self, programs: Programs) -> None:
        self._programs = programs
        self._forms: dict[str, bytes] = {}
        self._making = asyncio.Lock()

    async def form(self, name: str) -> bytes:
        """One form.

        Raises:
            ApiError: 503, it cannot be made now.
        """
        async with self._making:
            if not self._forms:
                forms: dict[str, str] = orjson.loads(await _made(self._programs))
                self._forms = {one: zlib.compress(text.encode()) for one, text in forms.items()}
        return zlib.decompress(self._forms[name])


async def _made(programs: Programs) -> bytes:
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    try:
        process = await programs.start(_MODULE, stdin=nothing, stdout=pipe)
    except OSError as error:
        raise ApiError(503, "SERVICE_UNAVAILABLE", f"the document cannot be made: {error.strerror}") from error
    try:
        async with asyncio.timeout(_END_S):
            stdout, _ = await process.communicate()
    except TimeoutError:
        raise ApiError(503, "SERVICE_UNAVAILABLE", "the document took too long to make") from None
    finally:
        if process.returncode is None:
            process.kill()
    if process.returncode:
        raise ApiError(503, "SERVICE_UNAVAILABLE", "the document cannot be made; the log says why")
    return stdout
