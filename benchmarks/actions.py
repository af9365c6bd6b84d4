"""What the two engines of actions cost and how late their rows are: the action runner beside Spark's pipeline.

A node runs actions for a web service that answers at once, a PostgreSQL and a Redis, all started for it. For each
engine in turn:

- `latency`: a row a time, published at QoS 1; from its publish to the arrival of its request.
- `http`, `http100` (100 rows in a request), `postgresql`, `redis`: many rows at once; the rows of a second, and those
  of a second of CPU time of the engine's processes: the runner, or the driver with Java and its Python workers.

Then what the runner holds while it is idle and behind all of that: memory of its own, without what it shares with
other processes.

    python benchmarks/actions.py [--rows N] [--latencies N] [--only local|spark]
"""

import argparse
import asyncio
import json
import re
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.brokers import HELIOGRAPH, Broker, BrokerError, below, cpu_seconds, process_tree
from benchmarks.findings import Finding, add_report_options, machine, report
from benchmarks.peers import Publisher

from support.mosquitto import free_port
from support.postgresql import Postgresql, postgresql
from support.redis import RedisServer, redis_server

OUTPUT: Final = Path("bench-output")
LOCAL: Final = "local"
SPARK: Final = "spark"

_MEDIAN_MS: Final = 20.0
_P99_MS: Final = 100.0
_IDLE_MIB: Final = 45.0
_BUSY_MIB: Final = 64.0
_TIMES_OF_SPARK: Final = 3.0
_READY_S: Final = 120.0
_ARRIVED_S: Final = 180.0
_PAUSE_S: Final = 0.05
_TARGETS: Final = {
    "http": "HTTP",
    "http100": "HTTP, 100 in a request",
    "postgresql": "PostgreSQL",
    "redis": "Redis",
}
_SETTINGS: Final = """
durable_storage {{ messages.topics = ["only/this"], flight.bind = "127.0.0.1:{flight}" }}
pipeline {{ enable = {is_spark}, master = "local[2]", trigger = 100ms, spark_conf {{ "spark.ui.enabled" = "false" }} }}
actions.engine = {engine}
connectors.http.web {{ url = "http://127.0.0.1:{web}" }}
actions.http.web {{ connector = web, parameters {{ body = "${{payload}}" }} }}
actions.http.many {{ connector = web, parameters {{ body = "${{payload}}", max_records = 100 }} }}
connectors.pgsql.db {{
  server = "127.0.0.1:{pg.port}", database = {pg.database}, username = {pg.user}, password = "{pg.password}"
}}
actions.pgsql.db {{ connector = db, parameters.sql = "INSERT INTO {engine} (doc) VALUES (${{payload}})" }}
connectors.redis.cache {{ parameters {{
  server = "127.0.0.1:{redis.port}", password = "{redis.password}", redis_type = single
}} }}
actions.redis.cache {{ connector = cache, parameters {{ command_template = [RPUSH, "{engine}", "${{payload}}"] }} }}
rule_engine.rules {{
  web {{ sql = "SELECT payload FROM \\"web\\"", actions = ["http:web"] }}
  many {{ sql = "SELECT payload FROM \\"many\\"", actions = ["http:many"] }}
  db {{ sql = "SELECT payload FROM \\"db\\"", actions = ["pgsql:db"] }}
  cache {{ sql = "SELECT payload FROM \\"cache\\"", actions = ["redis:cache"] }}
}}
"""


@dataclass
class Service:
    """A web service that answers each request at once; it notes when each arrived and what it says."""

    port: int = 0
    arrived: list[tuple[float, bytes]] = field(default_factory=list)
    rows: int = 0

    def clear(self) -> None:
        """Forget what arrived."""
        self.arrived.clear()
        self.rows = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                found = re.search(rb"(?i)content-length: (\d+)", head)
                body = await reader.readexactly(int(found[1])) if found is not None else b""
                self.arrived.append((time.time(), body))
                self.rows += body.count(b'"n":')  # of each row, alone or in an array
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


@contextmanager
def service() -> Iterator[Service]:
    """One that runs in a thread of its own."""
    made, loop = Service(), asyncio.new_event_loop()
    server = loop.run_until_complete(asyncio.start_server(made.serve, "127.0.0.1", 0))
    made.port = server.sockets[0].getsockname()[1]
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


@dataclass(frozen=True)
class Engine:
    """An engine on a running node."""

    name: str
    broker: Broker
    web: Service
    redis: RedisServer
    database: Postgresql

    def processes(self) -> list[int]:
        """Those of the engine, the first of which the node started."""
        word = b"heliograph.pipeline.runner" if self.name == LOCAL else b"pipeline\0run"
        tree = process_tree()
        roots = [pid for pid in tree.get(self.broker.pid, ()) if word in Path(f"/proc/{pid}/cmdline").read_bytes()]
        return [pid for root in roots for pid in (root, *below(root, tree))]

    def cpu_seconds(self) -> float:
        """CPU time of its processes, those that they have waited for included."""
        return sum(map(cpu_seconds, self.processes()))

    def rows_in_redis(self) -> int:
        """Rows that arrived there."""
        with self.redis.client() as client:
            return int(client.llen(self.name))

    def rows_in_postgresql(self) -> int:
        """Rows that arrived there."""
        return int(self.database.query(f"SELECT count(*) FROM {self.name}")[0][0])

    def own_memory(self) -> int:
        """Bytes that its first process shares with no other one."""
        text = Path(f"/proc/{self.processes()[0]}/smaps_rollup").read_text()
        return sum(int(size) for size in re.findall(r"Private_\w+:\s+(\d+) kB", text)) * 1024


def measure(engine: Engine, rows: int, latencies: int) -> dict[str, float]:
    """The figures of one engine."""
    _wait(engine.processes, _READY_S, "the engine has not started")
    figures = asyncio.run(_latencies(engine, latencies))
    payloads = [b'{"n": %d, "text": "some text of a usual length for a row"}' % number for number in range(rows)]
    web, cache, stored = engine.web, engine.rows_in_redis(), engine.rows_in_postgresql()
    for name, topic in (("http", b"web"), ("http100", b"many")):
        web.clear()
        figures |= _rates(name, engine, topic, payloads, lambda: web.rows >= rows)
    figures |= _rates("postgresql", engine, b"db", payloads, lambda: engine.rows_in_postgresql() >= stored + rows)
    figures |= _rates("redis", engine, b"cache", payloads, lambda: engine.rows_in_redis() >= cache + rows)
    return figures | {"memory": engine.own_memory()}


async def _latencies(engine: Engine, count: int) -> dict[str, float]:
    found: list[float] = []
    web = engine.web
    async with Publisher(engine.broker.port) as publisher:
        for number in range(-5, count):  # the first ones wait for the start, and for the first connection
            web.clear()
            began = time.time()
            await publisher.publish(b"web", [b'{"n": %d}' % number])
            end = time.monotonic() + _READY_S
            while not web.arrived:
                if time.monotonic() > end:
                    raise BrokerError("a row has not arrived")
                await asyncio.sleep(0.0005)
            if number >= 0:
                found.append((web.arrived[0][0] - began) * 1000)
            await asyncio.sleep(_PAUSE_S)
        with engine.redis.client() as client:
            before = engine.rows_in_redis()
            stored, many = engine.rows_in_postgresql(), len(web.arrived)
            for topic in (b"cache", b"db", b"many"):
                await publisher.publish(topic, [b'{"n": 0}'])
            _wait(lambda: engine.rows_in_redis() > before, _READY_S, "no row came to Redis")
            _wait(lambda: engine.rows_in_postgresql() > stored, _READY_S, "no row came to PostgreSQL")
            _wait(lambda: len(web.arrived) > many, _READY_S, "no row came in an array")
            client.delete(engine.name)
    found.sort()
    return {"median": found[len(found) // 2], "p99": found[len(found) * 99 // 100]}


def _rates(
    name: str, engine: Engine, topic: bytes, payloads: Sequence[bytes], have_arrived: Callable[[], bool]
) -> dict[str, float]:
    async def publish() -> None:
        async with Publisher(engine.broker.port) as publisher:
            for begin in range(0, len(payloads), 1000):
                await publisher.publish(topic, payloads[begin : begin + 1000])

    cpu, began = engine.cpu_seconds(), time.perf_counter()
    asyncio.run(publish())
    _wait(have_arrived, _ARRIVED_S, f"not all rows came to {name}")
    seconds, used = time.perf_counter() - began, engine.cpu_seconds() - cpu
    return {f"{name}/s": len(payloads) / seconds, f"{name}/CPU s": len(payloads) / max(used, 0.01)}


def _wait(is_so: Callable[[], object], seconds: float, problem: str) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            raise BrokerError(problem)
        time.sleep(0.01)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; the exit code."""
    args = _options(argv)
    OUTPUT.mkdir(exist_ok=True)
    figures: dict[str, dict[str, float]] = {}
    notes: list[str] = []
    idle = 0
    with (
        tempfile.TemporaryDirectory(dir=OUTPUT) as folder,
        redis_server(Path(folder)) as redis,
        postgresql() as database,
        service() as web,
    ):
        for name in args.only or (LOCAL, SPARK):
            values = {"engine": name, "is_spark": json.dumps(name == SPARK), "flight": free_port()}
            settings = _SETTINGS.format(web=web.port, redis=redis, pg=database, **values)
            database.query(f"CREATE TABLE {name} (doc text)")
            try:
                with Broker(replace(HELIOGRAPH, settings=settings), Path(folder) / name, None) as broker:
                    engine = Engine(name, broker, web, redis, database)
                    if name == LOCAL:
                        _wait(engine.processes, _READY_S, "the runner has not started")
                        time.sleep(args.idle)
                        idle = engine.own_memory()
                    figures[name] = measure(engine, args.rows, args.latencies)
            except (BrokerError, OSError) as error:
                notes.append(f"FAILED: {name}: {error}")
    conditions = f"{machine()}, {args.rows:,} rows, {args.latencies} latencies"
    return report(args, "actions", "Spark", _findings(figures, idle), conditions, notes)


def _findings(figures: dict[str, dict[str, float]], idle: int) -> list[Finding]:
    local, spark = figures.get(LOCAL, {}), figures.get(SPARK, {})
    rows: list[tuple[str, str, str, float | None, bool]] = [
        ("from a publish to its HTTP request, median", "median", " ms", _MEDIAN_MS, True),
        ("the same, p99", "p99", " ms", _P99_MS, True),
    ]
    for name, title in _TARGETS.items():
        least = spark.get(f"{name}/CPU s")
        if least is not None and name == "http100":
            least *= _TIMES_OF_SPARK
        rows.append((f"rows to {title}, a second", f"{name}/s", "", None, False))
        rows.append((f"rows to {title}, a second of CPU time", f"{name}/CPU s", "", least, False))
    found = [
        Finding(title, local[key], unit, limit, at_most, spark.get(key))
        for title, key, unit, limit, at_most in rows
        if key in local
    ]
    if idle:
        found.append(Finding("memory of its own of an idle runner", idle / 2**20, " MiB", _IDLE_MIB))
        found.append(Finding("the same behind all of this", local["memory"] / 2**20, " MiB", _BUSY_MIB))
    return found


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000, help="rows of a rate (default: %(default)s)")
    parser.add_argument("--latencies", type=int, default=200, help="rows of a latency (default: %(default)s)")
    parser.add_argument("--idle", type=float, default=3.0, help="seconds after which it is idle (default: %(default)s)")
    parser.add_argument("--only", nargs="*", choices=(LOCAL, SPARK), help="these engines (default: both)")
    add_report_options(parser)
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
