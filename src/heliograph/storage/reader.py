"""The reader process: stored messages over Arrow Flight, without a millisecond taken from the broker.

`python -m heliograph.storage.reader --data-dir DIR --bind HOST:PORT` opens the databases of a node as RocksDB
secondaries, catches up with the broker before each answer, and serves the actions `get_streams`, `plan` and `info` and
reads (`do_get`), whose requests and answers are JSON; `docs/storage.md` describes them. On standard output it says
`ready HOST:PORT`, or `failed` and why. It ends on SIGTERM, and with `--watch-stdin` when its standard input closes,
which it does when the process that holds the other end dies, however it dies.
"""

import argparse
import errno
import json
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyarrow import flight

from heliograph.storage.arrow_rows import RowCollector
from heliograph.storage.catalog import Catalog
from heliograph.storage.engine import Rdict, open_secondary, translated
from heliograph.storage.errors import StorageError, UnknownDatabaseError
from heliograph.storage.interface import ROW_MAX, SEQUENCE_MAX, TIME_MAX, Position, StreamId
from heliograph.storage.local import databases_path, existing_databases
from heliograph.storage.plan import Limits, plan_read
from heliograph.storage.reader_request import INVALID_REQUEST, Request
from heliograph.storage.replay import block_slices, newest, progress, select

_SHUTDOWN_S: Final = 3.0
_SCRATCH: Final = ".readers"  # beside the databases: RocksDB's notes of each reader process
_END: Final = Position(TIME_MAX, SEQUENCE_MAX, ROW_MAX)


class ReadDatabase:
    """One database as a reader sees it. Owned by a `Reader`; used by its Flight threads, which `current` keeps apart.

    Args:
        name: Its name.
        path: The directory that the broker writes.
        scratch: A directory for RocksDB's notes.
    """

    def __init__(self, name: str, path: Path, scratch: Path) -> None:
        self.name = name
        self.path = path
        self._scratch = scratch
        self._lock = threading.Lock()
        self._rocks: Rdict | None = None
        self._catalog = Catalog(name, path)

    @contextmanager
    def current(self) -> Iterator[tuple[Rdict, Catalog]]:
        """The database and its catalog with everything that the broker has written so far; others wait meanwhile.

        Raises:
            StorageError: It cannot be read.
        """
        with self._lock:
            try:
                rocks = self._caught_up_or_opened_anew()
                yield rocks, self._catalog
            except (StorageError, ValueError):
                raise
            except Exception as error:
                self._rocks = None
                raise translated(error, self.name, self.path) from error

    def _caught_up_or_opened_anew(self) -> Rdict:
        try:
            return self._caught_up()
        except StorageError:
            raise
        except Exception:  # noqa: BLE001 - the broker may have replaced files that were being looked for
            self._rocks = None
            return self._caught_up()

    def _caught_up(self) -> Rdict:
        if self._rocks is None:
            self._rocks = open_secondary(self.path, Path(tempfile.mkdtemp(dir=self._scratch)))
            self._catalog = Catalog(self.name, self.path)
        self._rocks.try_catch_up_with_primary()
        self._catalog.refresh(self._rocks)
        return self._rocks


class Reader:
    """The databases of a node, for reading. Owned by the Flight server.

    Args:
        data_dir: The node's data directory; databases may appear in it later.
        scratch: A directory for RocksDB's notes.
    """

    def __init__(self, data_dir: Path, scratch: Path) -> None:
        self._path = databases_path(data_dir)
        self._scratch = scratch
        self._lock = threading.Lock()
        self._databases: dict[str, ReadDatabase] = {}

    def databases(self) -> list[str]:
        """The names of the databases that exist."""
        return existing_databases(self._path)

    def database(self, name: str) -> ReadDatabase:
        """A database that exists.

        Raises:
            UnknownDatabaseError: It does not.
        """
        with self._lock:
            known = self._databases.get(name)
            if known is None:
                names = self.databases()
                if name not in names:
                    listed = ", ".join(names) or "none"
                    raise UnknownDatabaseError(f"there is no such database; there are: {listed}", database=name)
                known = self._databases[name] = ReadDatabase(name, self._path / name, self._scratch)
            return known

    def get_streams(self, request: Request) -> dict[str, object]:
        """The action `get_streams`."""
        start, end = request.times()
        with self.database(request.database).current() as (_, catalog):
            streams = list(catalog.streams(request.filters(), start, end))
        return {
            "streams": [
                {
                    "stream": str(stream.id),
                    "shard": stream.id.shard,
                    "generation": stream.id.generation,
                    "rank": list(stream.rank),
                    "topics": stream.topics,
                    "sealed": stream.sealed,
                }
                for stream in streams
            ]
        }

    def plan(self, request: Request) -> dict[str, object]:
        """The action `plan`."""
        start, end = request.times()
        limits = Limits(request.count("max_messages"), request.count("max_bytes"))
        filters, positions = request.filters(), request.positions()
        with self.database(request.database).current() as (rocks, catalog):
            plan = plan_read(rocks, catalog, filters, start, end, positions, limits)
        return {
            "streams": {
                str(stream): {"position": str(step.position), "messages": step.rows, "bytes": step.message_bytes}
                for stream, step in plan.steps.items()
            },
            "remaining": {"messages": plan.remaining_rows},
        }

    def info(self, request: Request) -> dict[str, object]:
        """The action `info`."""
        if not request.has_database():
            return {"databases": self.databases()}
        with self.database(request.database).current() as (rocks, catalog):
            streams = list(catalog.all_streams())
            totals = [progress(rocks, stream, _END) for stream in streams]
            times = [last.time for stream in streams if (last := newest(rocks, stream)) is not None]
        return {
            "database": request.database,
            "messages": sum(total.rows for total in totals),
            "bytes": sum(total.message_bytes for total in totals),
            "streams": len(streams),
            "generations": len({generation.info.number for generation in catalog.generations()}),
            "shards": catalog.n_shards,
            "stored_at": max(times, default=None),
        }

    def read(self, request: Request) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """A read: the schema of its answer, and the batches, which are read as they are asked for."""
        stream = StreamId.parse(request.text("stream"))
        filters, columns = request.filters(), request.columns()
        start, end = request.times()
        after = max(Position.parse(request.text("from", ""), stream), Position.before(start or 0))
        to = Position.parse(request.text("to", ""), stream) if request.has("to") else _END
        if end is not None:
            to = min(to, Position.before(end))
        database = self.database(request.database)
        with database.current() as (rocks, catalog):
            selection = select(catalog, stream, filters)
        rows = RowCollector(stream, None if selection is None or selection.covered else filters, columns)
        if selection is None or to <= after:
            return rows.schema, iter(())
        batches = rows.batches(block_slices(rocks, stream, selection, after, to))
        return rows.schema, _with_storage_errors(batches, database)


def _with_storage_errors(batches: Iterator[pa.RecordBatch], database: ReadDatabase) -> Iterator[pa.RecordBatch]:
    try:
        yield from batches
    except Exception as error:
        raise translated(error, database.name, database.path) from error


class FlightServer(flight.FlightServerBase):  # type: ignore[misc]
    """Serves a `Reader`. Listens from its construction on.

    Args:
        reader: What to serve.
        bind: Host and port; port 0 takes a free one, which `port` then tells.
    """

    def __init__(self, reader: Reader, bind: tuple[str, int]) -> None:
        host, port = bind
        super().__init__(f"grpc://{f'[{host}]' if ':' in host else host}:{port}")
        self._actions: dict[str, tuple[Callable[[Request], dict[str, object]], str]] = {
            "get_streams": (reader.get_streams, "The streams of topic filters, with their ranks."),
            "plan": (reader.plan, "How far each stream may be read next within limits."),
            "info": (reader.info, "The databases, or the totals of one."),
        }
        self._reader = reader

    def list_actions(self, context: flight.ServerCallContext) -> list[tuple[str, str]]:
        """The actions and what they do."""
        return [(name, description) for name, (_, description) in self._actions.items()]

    def do_action(self, context: flight.ServerCallContext, action: flight.Action) -> list[bytes]:
        """Answer an action with one JSON object."""
        known = self._actions.get(action.type)
        if known is None:
            raise flight.FlightServerError(f"there is no action {action.type!r}; there are: {', '.join(self._actions)}")
        try:
            return [json.dumps(known[0](Request(action.body.to_pybytes()))).encode()]
        except Exception as error:
            raise _flight_error(error) from error

    def do_get(self, context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.FlightDataStream:
        """Answer a read with record batches."""
        try:
            schema, batches = self._reader.read(Request(ticket.ticket))
        except Exception as error:
            raise _flight_error(error) from error
        return flight.GeneratorStream(schema, _with_flight_errors(batches))


def _with_flight_errors(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    try:
        yield from batches
    except Exception as error:
        raise _flight_error(error) from error


def _flight_error(error: Exception) -> Exception:
    """The error that a client sees; its `extra_info` is the stable code."""
    text, code = str(error), StorageError.code
    if isinstance(error, StorageError):
        code = error.code
    elif isinstance(error, ValueError):
        code = INVALID_REQUEST
    else:
        text = f"the reader failed: {type(error).__name__}: {error}"
    translated_error: Exception = flight.FlightServerError(text, code.encode())
    return translated_error


def parse_bind(text: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`; an IPv6 host stands in brackets.

    Raises:
        ValueError: It is not of that form.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{text!r} is not HOST:PORT; for example 127.0.0.1:8815")
    return host.strip("[]"), int(port)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the reader process until it is told to stop; returns its exit code."""
    parser = argparse.ArgumentParser(prog="heliograph.storage.reader", description="Serve stored messages over Flight.")
    parser.add_argument("--data-dir", type=Path, required=True, help="the data directory of the node")
    parser.add_argument("--bind", required=True, help="HOST:PORT to listen on; port 0 takes a free one")
    parser.add_argument("--watch-stdin", action="store_true", help="end when standard input closes")
    options = parser.parse_args(arguments)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    # Ctrl-C in a terminal reaches the parent too, which then stops its reader in its own time.
    signal.signal(signal.SIGINT, signal.SIG_IGN if options.watch_stdin else lambda *_: stop.set())
    if options.watch_stdin:
        threading.Thread(target=_stop_at_end_of_input, args=(stop,), daemon=True).start()
    scratch = databases_path(options.data_dir) / _SCRATCH / str(os.getpid())
    try:
        scratch.mkdir(parents=True, exist_ok=True)
        _remove_left_behind(scratch.parent)
        return _serve(options.data_dir, options.bind, scratch, stop)
    except OSError as error:
        _say(f"failed cannot use {scratch}: {error.strerror}")
        return 1
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _serve(data_dir: Path, bind: str, scratch: Path, stop: threading.Event) -> int:
    try:
        host, port = parse_bind(bind)
        _check_bind(host, port)
        server = FlightServer(Reader(data_dir, scratch), (host, port))
    except OSError as error:
        why = "another program listens there" if error.errno == errno.EADDRINUSE else error.strerror
        _say(f"failed cannot listen on {bind}: {why}")
        return 1
    except (ValueError, pa.ArrowException) as error:
        _say(f"failed cannot listen on {bind}: {error}")
        return 1
    _say(f"ready {f'[{host}]' if ':' in host else host}:{server.port}")
    stop.wait()
    # Reads that a client does not take any more would keep the server from stopping.
    watchdog = threading.Timer(_SHUTDOWN_S, _end_at_once, args=(scratch,))
    watchdog.daemon = True
    watchdog.start()
    server.shutdown()
    watchdog.cancel()
    return 0


def _check_bind(host: str, port: int) -> None:
    """Bind the address for a moment: what gRPC says of one that it cannot have does not tell why."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(address)


def _remove_left_behind(path: Path) -> None:
    """Remove what readers that were killed could not remove themselves."""
    for entry in path.iterdir():
        if entry.name.isdigit() and not Path("/proc", entry.name).exists():
            shutil.rmtree(entry, ignore_errors=True)


def _say(line: str) -> None:
    sys.stdout.write(" ".join(line.split("\n")) + "\n")
    sys.stdout.flush()


def _stop_at_end_of_input(stop: threading.Event) -> None:
    while os.read(0, 4096):
        pass
    stop.set()


def _end_at_once(scratch: Path) -> None:
    shutil.rmtree(scratch, ignore_errors=True)
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
