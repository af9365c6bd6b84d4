"""Nodes that die at a step of a change each, as by `kill -9`; run as a program by `test_killed`.

    python -m config_changes.killing DIRECTORY STEP...

Each is forked from this program, which has imported everything and started nothing. It prints how they ended.
"""

import asyncio
import json
import os
import sys
import traceback
from pathlib import Path
from unittest import mock

from heliograph.config_changes.edits import Edit
from heliograph.config_changes.terms import Terms
from heliograph.storage.durable_files import write_durably
from support.dying import die, die_at
from support.live_node import ALICE, LiveNode

SECRET = 'durable_storage.flight.tokens = [{{ name = a, token = "{}" }}]\nlog.audit.rotation_count = {}'
BEFORE = Edit(SECRET.format("the secret before", 3))
AFTER = Edit(SECRET.format("the other secret", 4))


async def main(directory: Path, step: str) -> None:
    """Make one change, and die while the second is made."""
    live = await LiveNode(directory).start()
    await live.manager.change(BEFORE, ALICE)
    replace = Path.replace

    def write(file: Path, content: bytes, mode: int = 0o666) -> None:
        die_at(step, f"before {file.name}")
        if step == f"half of {file.name}":
            file.with_name(f".{file.name}.unfinished").write_bytes(content[: len(content) // 2])
            die()
        write_durably(file, content, mode)
        die_at(step, f"after {file.name}")

    def replaced(self: Path, target: Path) -> Path:
        die_at(step, f"before {target.name} takes its place")
        return replace(self, target)

    with (
        mock.patch("heliograph.config_changes.files.write_durably", write),
        mock.patch.object(Path, "replace", replaced),
        mock.patch.object(live.node.parts, "apply", die if step == "before the commit" else live.node.parts.apply),
    ):
        await live.manager.change(AFTER, ALICE, Terms(confirm_s=600))
    die_at(step, "before the confirmation")


def ended(directory: Path, step: str) -> int:
    """How a process ends that dies at a step."""
    child = os.fork()
    if child == 0:
        try:
            asyncio.run(main(directory / step.replace(" ", "_"), step))
        except BaseException:  # noqa: BLE001 - whatever it is, this process goes no further
            traceback.print_exc()
        os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    sys.stdout.write(json.dumps({step: ended(Path(sys.argv[1]), step) for step in sys.argv[2:]}))
