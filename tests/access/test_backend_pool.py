"""The pool of connections to a backend: its bounds, its deadline, and what it does while the server is down."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from heliograph.access.backends.interface import BackendError, Connector, Fault, PoolLimits
from heliograph.access.backends.live import METRICS, Backends
from heliograph.access.backends.pool import Pool, masked
from heliograph.access.backends.threads import BlockingConnector, Threaded
from heliograph.access.backends.waiting_line import WaitingLine
from heliograph.observe.metric import Catalogue
from heliograph.processes.backoff import Backoff
from heliograph.settings.secrets import Secret
from support.alarms import unheard_alarms
from support.cases import cases
from support.waiting import until

QUICK = Backoff(0.001, 0.01)


class Line:
    """A connection to `Server`."""

    def __init__(self, server: "Server") -> None:
        self.server = server
        self.is_cut = False

    async def ask(self, word: str) -> str:
        if self.is_cut:
            raise ConnectionResetError("the line was cut")
        self.server.asking += 1
        self.server.most = max(self.server.most, self.server.asking)
        try:
            await asyncio.sleep(0)  # as on a socket, never in the same turn
            await self.server.answers.wait()
        finally:
            self.server.asking -= 1
        if self.is_cut:
            raise ConnectionResetError("the line was cut")
        if word == "nonsense":
            raise ValueError(f"the password {self.server.password} does not help against {word}")
        return word.upper()


class Server(Connector[Line]):
    """A server in memory that can go, hang and come back."""

    kind = "test"
    server = "127.0.0.1:1"

    def __init__(self, questions_each: int = 1) -> None:
        self.questions_each = questions_each
        self.is_there = True
        self.password = "s3cr%t'"
        self.answers = asyncio.Event()
        self.answers.set()
        self.lets_in = asyncio.Event()
        self.lets_in.set()
        self.lines: list[Line] = []
        self.opening = self.opening_most = self.tries = self.asking = self.most = 0

    def goes(self) -> None:
        """Stop: all lines are cut."""
        self.is_there = False
        for line in self.lines:
            line.is_cut = True

    async def open(self) -> Line:
        self.tries += 1
        self.opening += 1
        self.opening_most = max(self.opening_most, self.opening)
        try:
            await self.lets_in.wait()
        finally:
            self.opening -= 1
        if not self.is_there:
            raise ConnectionRefusedError(f"no server takes user:{self.password}")
        self.lines.append(Line(self))
        return self.lines[-1]

    async def close(self, client: Line) -> None:
        self.lines.remove(client)

    async def check(self, client: Line) -> None:
        await client.ask("ping")

    def fault(self, error: Exception) -> Fault:
        return Fault(str(error), isinstance(error, ConnectionError))

    def secrets(self) -> tuple[str, ...]:
        return (self.password,)


class World:
    """A pool, its server and its alarms."""

    def __init__(self) -> None:
        self.alarms = unheard_alarms()
        self.backends = Backends(self.alarms)
        self.server = Server()
        self.pools: list[Pool[Line]] = []

    async def pool(self, limits: PoolLimits | None = None, server: Server | None = None) -> Pool[Line]:
        pool = Pool("users", server or self.server, limits or PoolLimits(questions=3), self.backends, QUICK)
        self.pools.append(pool)
        await pool.start()
        return pool

    def number(self, name: str) -> float:
        return next(one.value for one in self.backends.samples() if one.name == f"backend.{name}")

    @property
    def active(self) -> list[str]:
        return [alarm.name for alarm in self.alarms.active()]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    yield world
    for pool in world.pools:
        await pool.stop()
    assert not world.server.lines
    assert not world.active


def saying(word: str) -> Callable[[Line], Awaitable[str]]:
    return lambda line: line.ask(word)


async def refused(pool: Pool[Line], word: str = "hi") -> str:
    with pytest.raises(BackendError) as refusal:
        await pool.ask(saying(word))
    return str(refusal.value)


async def test_the_file_of_a_password_that_cannot_be_read_is_named(world: World) -> None:
    class WithoutPassword(Server):
        async def open(self) -> Line:
            Secret(file=Path("/nowhere/password")).reveal()
            return await super().open()

        def fault(self, error: Exception) -> Fault:
            return Fault(type(error).__name__, False)  # as for what a library might say

    pool = await world.pool(server=WithoutPassword())
    assert "the file /nowhere/password with a secret cannot be read" in await refused(pool)


async def test_questions_that_come_before_the_first_connection_wait_for_it(world: World) -> None:
    pool = await world.pool()
    assert await pool.ask(saying("hi")) == "HI"
    assert pool.health() == ""


async def test_a_pool_opens_one_connection_after_the_other_and_no_more_than_it_may(world: World) -> None:
    pool = await world.pool()
    answers = await asyncio.gather(*(pool.ask(saying(f"q{number}")) for number in range(50)))
    assert answers == [f"Q{number}" for number in range(50)]
    assert (len(world.server.lines), world.server.opening_most) == (3, 1)
    assert world.server.most <= 3


async def test_questions_beyond_the_queue_are_refused_at_once(world: World) -> None:
    pool = await world.pool(PoolLimits(questions=1, waiting=2))
    world.server.answers.clear()
    asked = [asyncio.create_task(pool.ask(saying(f"q{number}"))) for number in range(3)]
    await until(lambda: world.server.asking == 1)
    assert "is busy: 2 questions wait already" in await refused(pool)
    world.server.answers.set()
    assert await asyncio.gather(*asked) == ["Q0", "Q1", "Q2"]
    assert world.number("refused") == 1


async def test_a_late_answer_ends_the_connection_and_others_go_on(world: World) -> None:
    pool = await world.pool(PoolLimits(questions=2, deadline_s=0.05))
    world.server.answers.clear()
    assert "did not answer within 50ms" in await refused(pool)
    world.server.answers.set()
    assert await pool.ask(saying("hi")) == "HI"
    assert world.number("late") == 1
    assert not world.active


class Settling(Server):
    """A server that can tell when a question has ended that nothing waits for."""

    async def settle(self, client: Line) -> None:
        await self.answers.wait()


async def test_a_connection_whose_question_was_late_is_used_again_when_that_has_ended(world: World) -> None:
    server = world.server = Settling()
    pool = await world.pool(PoolLimits(questions=1, deadline_s=0.1), server)
    server.answers.clear()
    await refused(pool)
    line = server.lines[0]
    server.answers.set()
    assert await pool.ask(saying("hi")) == "HI"
    assert server.lines == [line]


async def test_a_pool_that_stops_does_not_wait_for_questions_that_were_late(world: World) -> None:
    server = world.server = Settling()
    pool = await world.pool(PoolLimits(questions=1, deadline_s=30.0), server)
    server.answers.clear()
    asked = asyncio.create_task(pool.ask(saying("hi")))
    await until(lambda: server.asking == 1)
    asked.cancel()
    await until(lambda: server.asking == 0)
    async with asyncio.timeout(10):
        await pool.stop()
    assert not server.lines


async def test_what_would_come_too_late_is_not_asked_so_that_others_are_answered_in_time(world: World) -> None:
    line: WaitingLine[str] = WaitingLine(lambda: BackendError("late"), lambda given: None)
    now_s = asyncio.get_running_loop().time()
    hopeless, first, second = [asyncio.create_task(line.wait(now_s + s, is_first=False)) for s in (5.0, 20.0, 30.0)]
    await until(lambda: len(line) == 3)
    line.needs_s = 10.0
    for expected in ("one", "two"):
        place = line.next()
        assert place is not None
        place.set_result(expected)
    assert (await first, await second) == ("one", "two")
    assert line.next() is None
    line.refuse(lambda: BackendError("down"))
    with pytest.raises(BackendError, match="down"):
        await hopeless


async def test_a_server_that_is_down_is_an_alarm_until_it_is_back(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    pool = await world.pool()
    assert await pool.ask(saying("hi")) == "HI"
    with caplog.at_level(logging.DEBUG):
        world.server.goes()
        assert "is down" in await refused(pool)
        assert "is down" in await refused(pool)
        [alarm] = world.alarms.active()
        assert alarm.name == "backend_down/users"
        assert alarm.details["kind"] == "test"
        assert alarm.details["why"] == "no server takes user:******"
        assert world.backends.health() == "users is down: no server takes user:******"
        tries = world.server.tries
        await until(lambda: world.server.tries > tries + 3)
        assert len(world.alarms.active()) == 1
        world.server.is_there = True
        await until(lambda: not world.active)
        assert await pool.ask(saying("hi")) == "HI"
    assert world.server.password not in caplog.text
    told = [record.levelname for record in caplog.records if record.name.startswith("heliograph.access")]
    assert told == ["WARNING", "WARNING"]


async def test_a_storm_of_questions_at_a_server_that_is_down_is_not_a_storm_of_connects(world: World) -> None:
    world.server.is_there = False
    pool = await world.pool()
    storm = await asyncio.gather(*(pool.ask(saying("hi")) for _ in range(500)), return_exceptions=True)
    assert all(isinstance(one, BackendError) for one in storm)
    assert world.server.opening_most == 1
    assert world.server.tries < 5


async def test_a_server_that_started_again_is_not_noticed_by_who_asks(world: World) -> None:
    pool = await world.pool()
    await asyncio.gather(*(pool.ask(saying("hi")) for _ in range(9)))
    world.server.goes()
    world.server.is_there = True
    assert await asyncio.gather(*(pool.ask(saying("hi")) for _ in range(9))) == ["HI"] * 9
    assert not world.active
    assert len(world.server.lines) <= 3


async def test_a_server_that_accepts_and_says_nothing_is_down(world: World) -> None:
    world.server.lets_in.clear()
    pool = await world.pool(PoolLimits(connect_s=0.05))
    assert "is down: no connection within 50ms" in await refused(pool)
    world.server.lets_in.set()
    await until(lambda: not pool.health())


async def test_a_server_that_goes_while_nothing_is_asked_is_noticed(world: World) -> None:
    pool = await world.pool(PoolLimits(check_s=0.01))
    await pool.ask(saying("hi"))
    world.server.goes()
    await until(lambda: world.active == ["backend_down/users"])


async def test_an_error_of_a_question_has_no_secret_and_keeps_the_connection(world: World) -> None:
    pool = await world.pool()
    text = await refused(pool, "nonsense")
    assert "the password ****** does not help" in text
    line = world.server.lines[0]
    assert await pool.ask(saying("hi")) == "HI"
    assert world.server.lines == [line]
    assert world.number("failures") == 1


async def test_who_gives_up_waiting_leaves_no_trace(world: World) -> None:
    pool = await world.pool(PoolLimits(questions=1))
    world.server.answers.clear()
    asked = [asyncio.create_task(pool.ask(saying("hi"))) for _ in range(4)]
    await until(lambda: world.number("waiting") == 3)
    for one in asked[:3]:
        one.cancel()
    world.server.answers.set()
    assert await asked[3] == "HI"
    assert world.number("waiting") == 0


async def test_one_connection_may_take_many_questions(world: World) -> None:
    server = world.server = Server(questions_each=4)
    pool = await world.pool(PoolLimits(questions=4, deadline_s=0.2), server)
    server.answers.clear()
    late = asyncio.create_task(refused(pool))
    asked = [asyncio.create_task(pool.ask(saying("hi"))) for _ in range(2)]
    await until(lambda: server.asking == 3)
    asked[0].cancel()
    await until(lambda: server.asking == 2)
    server.answers.set()
    assert await asked[1] == "HI"
    late.cancel()
    assert len(server.lines) == 1


async def test_who_was_asked_before_a_stop_answers(world: World) -> None:
    pool = await world.pool()
    world.server.answers.clear()
    asked = asyncio.create_task(pool.ask(saying("hi")))
    await until(lambda: world.server.asking == 1)
    stopping = asyncio.create_task(pool.stop())
    await until(lambda: bool(pool.health()))
    assert "it was stopped" in await refused(pool)
    world.server.answers.set()
    assert await asked == "HI"
    await stopping


async def test_a_new_pool_keeps_the_alarm_of_the_one_that_it_replaces(world: World) -> None:
    world.server.is_there = False
    old = await world.pool()
    await refused(old)
    new = await world.pool()
    await refused(new)
    await old.stop()
    assert world.active == ["backend_down/users"]
    world.server.is_there = True
    await until(lambda: not world.active)
    assert await new.ask(saying("hi")) == "HI"


async def test_every_number_is_declared(world: World) -> None:
    pool = await world.pool()
    await pool.ask(saying("hi"))
    catalogue = Catalogue(METRICS)
    samples = list(world.backends.samples())
    assert all(catalogue.declares(sample) for sample in samples)
    assert {sample.name for sample in samples} == {metric.name for metric in METRICS}


@cases("form", ["p'ss wörd", "p%27ss%20w%C3%B6rd", "p%27ss+w%C3%B6rd", "p'ss w\\xc3\\xb6rd"])
def test_a_secret_is_masked_in_all_forms_that_libraries_write(form: str) -> None:
    assert masked(f"tcp://u:{form}@h\nis wrong", ["p'ss wörd", ""]) == "tcp://u:******@h is wrong"


# --- libraries that block


class BlockingServer(BlockingConnector[threading.Event]):
    """Connections whose calls wait for an event."""

    kind = "blocking"
    server = "127.0.0.1:1"

    def __init__(self) -> None:
        self.lets_in = threading.Event()
        self.lets_in.set()
        self.opened = 0
        self.closed = 0

    def connect(self) -> threading.Event:
        self.lets_in.wait()
        self.opened += 1
        return threading.Event()

    def disconnect(self, client: threading.Event) -> None:
        self.closed += 1

    def interrupt(self, client: threading.Event) -> None:
        client.set()

    def fault(self, error: Exception) -> Fault:
        return Fault(str(error), is_lost=False)


def hang(event: threading.Event) -> str:
    event.wait()
    return "never"


async def test_a_call_that_blocks_is_interrupted_at_the_deadline() -> None:
    world, server = World(), BlockingServer()
    pool: Pool[Threaded[threading.Event]] = Pool(
        "users", server, PoolLimits(questions=2, deadline_s=0.05), world.backends, QUICK
    )
    await pool.start()
    names = {await pool.ask(lambda client: client.run(lambda event: threading.current_thread().name))}
    assert names == {"blocking"}
    with pytest.raises(BackendError, match="did not answer"):
        await pool.ask(lambda client: client.run(hang))
    await pool.stop()
    assert server.opened == server.closed
    assert not [one for one in threading.enumerate() if one.name == "blocking"]


async def test_a_connect_that_comes_too_late_is_closed_before_the_next_one() -> None:
    world, server = World(), BlockingServer()
    server.lets_in.clear()
    pool: Pool[Threaded[threading.Event]] = Pool("users", server, PoolLimits(connect_s=0.02), world.backends, QUICK)
    await pool.start()
    await until(lambda: bool(world.active))
    assert len([one for one in threading.enumerate() if one.name == "blocking"]) == 1
    server.lets_in.set()
    await until(lambda: not world.active)
    assert (server.opened, server.closed) == (2, 1)
    await pool.stop()
    assert server.closed == 2
