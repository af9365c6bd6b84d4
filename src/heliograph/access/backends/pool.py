"""The pool of connections to one server: what waits for one, when one is opened, what happens while the server is down.

One task opens connections, one after the other, and only as many as are needed; so a server that comes back, or a storm
of clients, never meets a storm of connects. While the server is down this task is the only one that tries it, with
pauses that grow, and questions are refused at once. Between the loss of a connection and the answer to the next
try, which decides whether the server is down, questions wait.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Final, Generic, TypeVar
from urllib.parse import quote, quote_plus

from heliograph.access.backends.interface import BackendError, Client, Connector, LostConnectionError, PoolLimits
from heliograph.access.backends.live import Backends
from heliograph.access.backends.waiting_line import WaitingLine
from heliograph.observe.bounded_log import short_text
from heliograph.observe.histogram import Histogram
from heliograph.observe.metric import Sample, labelled
from heliograph.processes.backoff import Backoff
from heliograph.settings.secrets import STARS, SecretError
from heliograph.settings.units import format_duration

Answer = TypeVar("Answer")
_BACKOFF: Final = Backoff(0.5, 15.0)
_LATENCY_BOUNDS_S: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
_AVERAGE_OF: Final = 8  # the answers of which the typical time is known
_NOT_USABLE: Final = -1  # of no generation
_STOPPED: Final = "it was stopped"
_TEXT_MAX: Final = 500


class _Opened(Generic[Client]):
    """One connection, from when it is open until it is closed."""

    def __init__(self, client: Client, generation: int) -> None:
        self.client = client
        self.generation = generation
        self.users = 1  # what opens it, until it gives it back

    def has_room(self, generation: int, questions_each: int) -> bool:
        return self.generation == generation and self.users < questions_each


class Pool(Generic[Client]):
    """Connections to one server and the questions to it; owned by what asks.

    Args:
        name: What alarms, metrics and logs call it; unique in a node but while a new one replaces it.
        backoff: The pauses between tries while the server is down; up to half of each is left out by chance.
    """

    def __init__(
        self,
        name: str,
        connector: Connector[Client],
        limits: PoolLimits,
        backends: Backends,
        backoff: Backoff = _BACKOFF,
    ) -> None:
        self.name = name
        self.kind, self.server = connector.kind, connector.server
        self._connector = connector
        self._each = connector.questions_each
        self._limits = limits
        self._backends = backends
        self._backoff = backoff
        self._why = ""  # the server is down, and why
        self._is_proved = False  # a connection could be opened since the last one was lost
        self._generation = 0
        self._opened: list[_Opened[Client]] = []
        self._waiting: WaitingLine[_Opened[Client]] = WaitingLine(self._late, self._give_back)
        self._opens = asyncio.Event()
        self._opening: asyncio.Task[None] | None = None
        self._settling: set[asyncio.Task[None]] = set()
        self._closing: set[asyncio.Task[None]] = set()
        self._asked = 0  # questions that are being answered
        self._is_quiet = asyncio.Event()
        self._numbers = dict.fromkeys(("questions", "refused", "failures", "late"), 0)
        self._latency = Histogram(_LATENCY_BOUNDS_S)

    async def start(self) -> None:
        """Does not wait for a connection: questions wait until it is known whether the server is there."""
        self._backends.add(self)
        self._opens.set()
        self._opening = asyncio.get_running_loop().create_task(self._keep_open(), name=f"backend {self.name}")

    async def stop(self) -> None:
        """Refuse what is asked from now on, wait for the answers to what is being asked, and close."""
        if self._opening is None:
            return
        opening, self._opening = self._opening, None
        opening.cancel()
        with suppress(asyncio.CancelledError):
            await opening
        self._refuse(_STOPPED)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._limits.deadline_s):
                while self._asked:
                    self._is_quiet.clear()
                    await self._is_quiet.wait()
        self._generation += 1
        for one in self._settling:
            one.cancel()
        await asyncio.gather(*self._settling, return_exceptions=True)
        for opened in self._opened[:]:  # also those that were not given back in time
            self._close(opened)
        if self._closing:
            _, late = await asyncio.wait(self._closing, timeout=self._limits.connect_s)
            for one in late:
                one.cancel()
        self._backends.remove(self)

    def health(self) -> str:
        """Why the server cannot be asked now, for people; empty if it can."""
        return self._why

    async def ask(self, question: Callable[[Client], Awaitable[Answer]]) -> Answer:
        """What the server answers to a question.

        Args:
            question: Asks it on a connection on which nothing else is asked, or less than it takes at a time. It must
                be one that can be asked twice.

        Raises:
            BackendError: The server is down, busy or late, or refuses the question; at once where that is known.
        """
        self._numbers["questions"] += 1
        self._asked += 1
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        try:
            answer = await self._answer(question, began_s + self._limits.deadline_s)
        finally:
            self._asked -= 1
            if not self._asked:
                self._is_quiet.set()
        self._latency.add(loop.time() - began_s)
        return answer

    def samples(self) -> list[Sample]:
        numbers = {"connections": len(self._opened), "waiting": len(self._waiting), **self._numbers}
        return [*labelled("backend", numbers, self.name), *self._latency.samples("backend.latency", self.name)]

    def __repr__(self) -> str:
        return f"Pool({self.name}, {self.kind} at {self.server}: {self._why or f'{len(self._opened)} open'})"

    # --- one question

    async def _answer(self, question: Callable[[Client], Awaitable[Answer]], due_s: float) -> Answer:
        try:
            return await self._answer_once(question, due_s, is_second=False)
        except LostConnectionError:  # perhaps since the server started again
            pass
        try:
            return await self._answer_once(question, due_s, is_second=True)
        except LostConnectionError as error:
            raise self._error(f"lost the connection twice: {error}") from None

    async def _answer_once(
        self, question: Callable[[Client], Awaitable[Answer]], due_s: float, is_second: bool
    ) -> Answer:
        """Raises `LostConnectionError` if the connection turned out to be lost."""
        opened = await self._take(due_s, is_second)
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        try:
            async with asyncio.timeout_at(due_s) as limit:
                answer = await question(opened.client)
        except Exception as error:  # noqa: BLE001  # whatever a library raises: the question has no answer
            if limit.expired():
                self._abandon(opened)
                raise self._late() from None
            self._numbers["failures"] += 1
            text, is_lost = self._fault(error)
            if is_lost:
                self._lose(opened)
                raise LostConnectionError(text) from None
            self._give_back(opened)
            raise self._error(f"refuses the question: {text}") from None
        except BaseException:
            self._abandon(opened)
            raise
        typical_s = self._waiting.needs_s + (loop.time() - began_s - self._waiting.needs_s) / _AVERAGE_OF
        self._waiting.needs_s = min(typical_s, self._limits.deadline_s / 2)
        self._give_back(opened)
        return answer

    def _abandon(self, opened: _Opened[Client]) -> None:
        """Nothing waits for an answer any more, which may still come on this connection."""
        if self._each == 1:
            self._do(self._settle(opened), self._settling)
        else:
            self._give_back(opened)

    async def _settle(self, opened: _Opened[Client]) -> None:
        generation, opened.generation = opened.generation, _NOT_USABLE
        try:
            async with asyncio.timeout(self._limits.deadline_s):
                await self._connector.settle(opened.client)
            opened.generation = generation
        except Exception:  # noqa: BLE001  # whatever a library raises: another connection will do
            pass
        finally:
            self._give_back(opened)

    async def _take(self, due_s: float, is_second: bool) -> _Opened[Client]:
        """A connection with room for a question, when there is one; a second try goes before others."""
        if self._why:
            raise self._refused(f"is down: {self._why}")
        opened = next((one for one in self._opened if one.has_room(self._generation, self._each)), None)
        if opened is not None:
            opened.users += 1
            return opened
        if len(self._waiting) >= self._limits.waiting:
            raise self._refused(f"is busy: {len(self._waiting)} questions wait already", is_news=True)
        self._opens.set()
        return await self._waiting.wait(due_s, is_second)

    def _give_back(self, opened: _Opened[Client]) -> None:
        """A question on a connection has ended: those that wait ask on it, as far as it has room."""
        opened.users -= 1
        while opened.has_room(self._generation, self._each) and (place := self._waiting.next()) is not None:
            opened.users += 1
            place.set_result(opened)
        if opened.generation != self._generation and not opened.users and opened in self._opened:
            self._close(opened)
        if self._waiting:
            self._opens.set()

    # --- connections

    async def _keep_open(self) -> None:
        failures = 0
        while True:
            try:
                async with asyncio.timeout(self._limits.check_s):
                    await self._opens.wait()
            except TimeoutError:
                await self._check_idle()
            self._opens.clear()
            while not self._is_proved or (self._waiting and len(self._opened) * self._each < self._limits.questions):
                why = await self._open_one()
                failures = failures + 1 if why else 0
                if why:
                    if not any(one.generation == self._generation for one in self._opened):
                        self._is_proved = False
                        self._refuse(why)
                        self._backends.down(self, why)
                    await asyncio.sleep(self._backoff.pause_s(failures) * random.uniform(0.5, 1.0))  # the pause

    async def _open_one(self) -> str:
        """Why it could not be opened; empty if it is open."""
        generation = self._generation
        try:
            async with asyncio.timeout(self._limits.connect_s) as limit:
                client = await self._connector.open()
        except Exception as error:  # noqa: BLE001  # whatever a library raises: the server cannot be asked
            if limit.expired():
                return f"no connection within {format_duration(self._limits.connect_s)}"
            return self._fault(error)[0]
        opened = _Opened(client, generation)
        self._opened.append(opened)
        if generation == self._generation:
            self._is_proved = True
            self._why = ""
            self._waiting.refuse(None)
            self._backends.up(self)
        self._give_back(opened)
        return ""

    async def _check_idle(self) -> None:
        """Check a connection that is not used: a server that went away is noticed before it is asked."""
        idle = next((one for one in self._opened if not one.users and one.generation == self._generation), None)
        if idle is None or self._waiting:
            return
        idle.users = self._each
        is_good = False
        try:
            async with asyncio.timeout(self._limits.connect_s):
                await self._connector.check(idle.client)
            is_good = True
        except Exception:  # noqa: BLE001  # what is wrong is said by the next try to connect
            pass
        finally:
            idle.users = 1
            if is_good:
                self._give_back(idle)
            else:
                self._lose(idle)

    def _lose(self, opened: _Opened[Client]) -> None:
        """A connection is lost, and with it, most likely, all that were opened with it and are not used now."""
        if opened.generation == self._generation:
            self._generation += 1
            self._is_proved = False
            self._discard_idle()
        self._give_back(opened)
        self._opens.set()

    def _refuse(self, why: str) -> None:
        self._why = why
        self._waiting.refuse(lambda: self._refused(f"is down: {why}"))

    def _discard_idle(self) -> None:
        for opened in [one for one in self._opened if not one.users]:
            self._close(opened)

    def _close(self, opened: _Opened[Client]) -> None:
        self._opened.remove(opened)
        self._do(_end(self._connector, opened.client), self._closing)

    def _do(self, work: Coroutine[None, None, None], tasks: set[asyncio.Task[None]]) -> None:
        task = asyncio.get_running_loop().create_task(work, name=f"backend {self.name}")
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    # --- what is said

    def _fault(self, error: Exception) -> tuple[str, bool]:
        if isinstance(error, LostConnectionError):
            return masked(str(error), self._connector.secrets()), True
        if isinstance(error, SecretError):  # it names the file of a password, and nothing that is in it
            return str(error), False
        fault = self._connector.fault(error)
        return masked(fault.text, self._connector.secrets()), fault.is_lost

    def _refused(self, text: str, is_news: bool = False) -> BackendError:
        self._numbers["refused"] += 1
        return self._error(text, is_news)

    def _late(self) -> BackendError:
        self._numbers["late"] += 1
        return self._error(f"did not answer within {format_duration(self._limits.deadline_s)}")

    def _error(self, text: str, is_news: bool = True) -> BackendError:
        error = BackendError(f"the backend {self.name} ({self.kind} at {self.server}) {text}")
        if is_news:
            self._backends.failed(str(error))
        return error


async def _end(connector: Connector[Client], client: Client) -> None:
    with suppress(Exception):
        await connector.close(client)


def masked(text: str, secrets: Iterable[str]) -> str:
    """A text as one line of bounded length, with stars for each secret, also where it is quoted or part of a URL."""
    forms = {form for secret in secrets if secret for form in _forms(secret)}
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, STARS)
    return short_text(" ".join(text.split()), _TEXT_MAX)


def _forms(secret: str) -> tuple[str, ...]:
    return secret, repr(secret)[1:-1], repr(secret.encode())[2:-1], quote(secret, safe=""), quote_plus(secret)
