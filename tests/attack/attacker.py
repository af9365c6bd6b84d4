"""One attack, in a process of its own: prepares, says `ready`, waits for a line, attacks until it is killed."""

import asyncio
import sys

import attack.kinds  # noqa: F401 - registers all of them
from attack.frame import ATTACKS, World


async def _run(name: str, world: World) -> None:
    steps = ATTACKS[name].prepare(world)
    await anext(steps)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    async for _ in steps:
        pass
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_run(sys.argv[1], World(int(sys.argv[2]), sys.argv[3] == "short")))
