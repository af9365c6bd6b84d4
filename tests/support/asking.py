"""Calls methods of `control` as the server of the control socket does, without a socket."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from typing import Any

import msgspec

from heliograph.rpc.methods import Call, Method, NoArgs

CALL = Call("tester (uid 0)", "a test", is_ours=True)


class Asker:
    """Asks methods by their names.

    Args:
        methods: Those that there are.
        run: Lets the node that they ask have its turns.
    """

    def __init__(self, methods: Sequence[Method], run: Callable[[], object] = lambda: None) -> None:
        self._run = run
        self._methods = {method.name: method for method in methods}

    def slices(self, name: str, args: msgspec.Struct = NoArgs()) -> Iterator[Sequence[Any]]:  # noqa: B008
        """The slices of a list, each when it is asked for."""
        answered = self._methods[name].handler(args, CALL)
        assert isinstance(answered, Iterator)
        return answered

    def rows(self, name: str, args: msgspec.Struct = NoArgs()) -> list[Any]:  # noqa: B008
        """All rows of a list, as an asker decodes them."""
        found = [row for rows in self.slices(name, args) for row in rows]
        for row in found:
            assert msgspec.msgpack.decode(msgspec.msgpack.encode(row), type=type(row)) == row
        return found

    def streamed(self, name: str, args: msgspec.Struct) -> list[Any]:
        """All rows of a list that waits between its slices."""
        answered = self._methods[name].handler(args, CALL)
        assert isinstance(answered, AsyncIterator)
        rows: list[Any] = []
        asyncio.run(self._awaited(_gathered(answered, rows)))
        return rows

    def ask(self, name: str, args: msgspec.Struct = NoArgs()) -> Any:  # noqa: B008
        """The answer of a method that gives one."""
        answered = self._methods[name].handler(args, CALL)
        return asyncio.run(self._awaited(answered)) if inspect.iscoroutine(answered) else answered

    async def _awaited(self, answer: Coroutine[Any, Any, object]) -> object:
        task = asyncio.ensure_future(answer)
        while not task.done():
            await asyncio.sleep(0)
            self._run()
        return await task


async def _gathered(slices: AsyncIterator[Sequence[Any]], rows: list[Any]) -> None:
    async for taken in slices:
        rows.extend(taken)
