"""The test of a connection to the target of an action, in a process of its own: no broker loads the pipeline."""

import asyncio
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

from heliograph.processes.programs import Programs

_FILE: Final = "probe.hocon"
_PROBE: Final = ("heliograph.cli.main", "pipeline", "probe")
_PROBE_S: Final = 45.0  # of which the target gets ten


class TargetUnreachableError(Exception):
    """The test of a connection failed."""

    code: ClassVar[str] = "action_test_failed"


async def probe(section: Mapping[str, Any], programs: Programs) -> None:
    """See whether the target of a sink can be reached and lets us in, in a process of its own.

    Args:
        section: The section of a rule of a pipeline file.
        programs: Starts the process.

    Raises:
        TargetUnreachableError: It cannot.
    """
    with tempfile.TemporaryDirectory(prefix="heliograph-probe-") as scratch:  # only this user may enter it
        file = Path(scratch) / _FILE
        file.write_text(json.dumps({"rules": {"probe": section}}))
        process = await programs.start(
            *_PROBE,
            str(file),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(_PROBE_S):
                _, told = await process.communicate()
        except TimeoutError:
            raise TargetUnreachableError(f"the target has not answered in {_PROBE_S:g} s") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    if process.returncode:
        said = told.decode(errors="replace").strip().removeprefix("heliograph pipeline: ").removeprefix("probe: ")
        raise TargetUnreachableError(said.replace(str(file), "the settings") or "the test ended without a word")
