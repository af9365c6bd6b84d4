"""Requests whose callers are refused: each is a line of the audit log; of many of them some are counted."""

import asyncio
from collections import Counter
from contextlib import suppress
from typing import Final, Protocol

from fastapi import Request

from heliograph.control.proto_v1.audit import AUDIT_REFUSED, RefusedCall
from heliograph.management.asking.nodes import Node
from heliograph.management.web.callers import NOBODY, Caller
from heliograph.management.web.errors import ApiError
from heliograph.rpc.conversation import UnreachableError
from heliograph.rpc.methods import RpcError

_WINDOW_S: Final = 60.0
_LINES_MAX: Final = 60  # a minute
_LINES_OF_ONE_MAX: Final = 10
_ADDRESSES_MAX: Final = 10
_NAME_MAX: Final = 100
_STRANGER: Final = "stranger"
_PATH_MAX: Final = 200
_STATUSES: Final = (401, 403, 429)
# Not an attempt: a browser that has no login yet, or whose login has ended.
_HARMLESS: Final = frozenset({"AUTHORIZATION_HEADER_ERROR", "TOKEN_TIME_OUT"})


class OwnNodes(Protocol):
    def own(self, on_behalf: str = "") -> Node:
        """The node beside this process."""


class RefusedCalls:
    """Notes refusals in the audit log of the node; owned by the program, which stops it.

    A caller who guesses could write as many lines as it likes. So there are some a minute of each caller and of all;
    the others are counted, and are one line at the end of the minute.
    """

    def __init__(self, nodes: OwnNodes) -> None:
        self._nodes = nodes
        self._lines: Counter[str] = Counter()
        self._counted: Counter[str] = Counter()
        self._addresses: dict[str, None] = {}
        self._waiting: list[tuple[str, RefusedCall]] = []
        self._sending: asyncio.Task[None] | None = None
        self._window: asyncio.TimerHandle | None = None

    def note(self, request: Request, error: ApiError) -> None:
        """A request was answered with an error; it is a line if it refuses the caller."""
        if error.status not in _STATUSES or error.code in _HARMLESS:
            return
        caller: Caller = getattr(request.state, "caller", NOBODY)
        kind, name = error.tried or ((caller.kind, caller.name) if caller.name else (_STRANGER, ""))
        address = request.client.host if request.client is not None else "nowhere"
        if self._window is None:
            self._window = asyncio.get_running_loop().call_later(_WINDOW_S, self.end_window)
        of_one = f"{kind} {caller.name}" if caller.name else address
        if self._lines[of_one] >= _LINES_OF_ONE_MAX or self._lines.total() >= _LINES_MAX:
            self._counted[error.code] += 1
            if len(self._addresses) < _ADDRESSES_MAX:
                self._addresses[address] = None
            return
        self._lines[of_one] += 1
        who = f"{kind} {name[:_NAME_MAX] or '-'} from {address}, request {request.state.request_id}"
        wanted = f"{request.method} {request.url.path[:_PATH_MAX]}"
        self._send(who, RefusedCall(wanted, error.code, error.message))

    def end_window(self) -> None:
        """Write what was counted, and begin to count again."""
        if self._window is not None:
            self._window.cancel()
            self._window = None
        for code, count in self._counted.items():
            text = f"{count:,} more requests were refused within a minute, and have no line of their own"
            self._send(
                f"{_STRANGER} - from several, request 0", RefusedCall("", code, text, count, tuple(self._addresses))
            )
        self._lines.clear()
        self._counted.clear()
        self._addresses.clear()

    async def noted(self) -> None:
        """Wait until the node has all lines of before."""
        if self._sending is not None:
            await asyncio.shield(self._sending)

    async def stop(self) -> None:
        self.end_window()
        await self.noted()

    def _send(self, who: str, refused: RefusedCall) -> None:
        self._waiting.append((who, refused))
        if self._sending is None:
            self._sending = asyncio.get_running_loop().create_task(self._send_all(), name="refused calls")

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                who, refused = self._waiting.pop(0)
                with suppress(RpcError, UnreachableError):  # the log of the node has its own troubles
                    await self._nodes.own(who).ask(AUDIT_REFUSED(refused))
        finally:
            self._sending = None
