"""Attacks, in a process of their own: prepare, say `ready`, wait for a line, attack until it is killed."""

import asyncio
import sys
from collections.abc import AsyncIterator

import attack.kinds  # noqa: F401 - registers all of them
from attack.frame import API_ATTACKS, ATTACKS, World


async def _run(worlds: dict[str, World]) -> None:
    attacks = [(ATTACKS | API_ATTACKS)[name].prepare(world) for name, world in worlds.items()]
    for steps in attacks:
        await anext(steps)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    await asyncio.gather(*[_to_the_end(steps) for steps in attacks])
    await asyncio.Event().wait()


async def _to_the_end(steps: AsyncIterator[None]) -> None:
    async for _ in steps:
        pass


def main() -> None:
    """Run the attacks that the first argument names, with commas between them."""
    names, port, size, *api = sys.argv[1:]
    api_port = int(api[0]) if api else 0
    asyncio.run(_run({name: World(int(port), size == "short", api_port) for name in names.split(",")}))


if __name__ == "__main__":
    main()
