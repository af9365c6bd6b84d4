"""The sink `redis`: commands made of rows by templates, each micro-batch exactly once.

A batch is one MULTI/EXEC, so Redis applies all of it or nothing, and with it notes in a hash which batch it was: a
batch that is run again finds itself there and does nothing. The commands are sent while the rows come, in chunks whose
answers are awaited, so that the driver buffers no more than a chunk; Redis queues the batch.
"""

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.files.section import Section
from heliograph.pipeline.sinks.arrow_rows import ArrowRows
from heliograph.pipeline.sinks.interface import Batch, Guarantee, OutputMode, Written
from heliograph.pipeline.sinks.retry import DEFAULT_RETRY, Attempts, RetryPolicy, TransientError
from heliograph.pipeline.sinks.secret import Secret, read_secret
from heliograph.pipeline.sinks.sql_settings import read_server
from heliograph.pipeline.sinks.template import bytes_column, placeholders, template_fault
from heliograph.pipeline.sinks.tls import TlsSettings

if TYPE_CHECKING:
    from redis import Redis

_PORT: Final = 6379
_CHUNK_ROWS: Final = 1_000
_CHUNK_ROWS_MAX: Final = 100_000
_TIMEOUT_S: Final = 30.0
_LEDGER_PREFIX: Final = "heliograph"
_TEXT_MAX: Final = 500

# They would end or break the transaction, or never answer.
_REFUSED_COMMANDS: Final = frozenset(
    {"MULTI", "EXEC", "DISCARD", "WATCH", "UNWATCH", "SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "UNSUBSCRIBE"}
    | {"PUNSUBSCRIBE", "SUNSUBSCRIBE", "MONITOR", "SYNC", "PSYNC", "QUIT", "RESET", "AUTH", "HELLO", "SELECT", "CLIENT"}
)
# How the answers begin that pass: memory, a replica or a script in the way, a server that starts.
_TRANSIENT_ANSWERS: Final = ("OOM", "READONLY", "LOADING", "BUSY", "MASTERDOWN", "TRYAGAIN", "NOREPLICAS", "MISCONF")

_Command = tuple[str, ...]


@dataclass(frozen=True)
class RedisSink:
    """Rows become commands.

    Attributes:
        host: The server's host.
        port: Its port.
        commands: The commands for each row, each a list of templates.
        database: Number of the database.
        username: Who connects; None is the default user.
        password: Its password.
        tls: How to speak TLS; None is without.
        batch_rows: Rows whose commands are sent before their answers are awaited.
        timeout_s: Seconds to wait for an answer.
        retry: How often it is tried again.
    """

    guarantee: ClassVar[Guarantee] = Guarantee.EXACTLY_ONCE

    host: str
    port: int
    commands: tuple[_Command, ...]
    database: int = 0
    username: str | None = None
    password: Secret | None = None
    tls: TlsSettings | None = None
    batch_rows: int = _CHUNK_ROWS
    timeout_s: float = _TIMEOUT_S
    retry: RetryPolicy = DEFAULT_RETRY

    @classmethod
    def read(cls, section: Section, mode: OutputMode, more_keys: tuple[str, ...]) -> Self:
        """See `Sink.read`."""
        keys = ("server", "database", "username", "password", "password_file", "ssl", "batch_rows", "timeout", "retry")
        section.check_keys("type", "command", "commands", *keys, *more_keys)
        host, port = read_server(section, _PORT)
        return cls(
            host=host,
            port=port,
            commands=_read_commands(section),
            database=section.number("database", 0, range(1024)),
            username=section.optional_text("username"),
            password=read_secret(section, "password"),
            tls=TlsSettings.read(section),
            batch_rows=section.number("batch_rows", _CHUNK_ROWS, range(1, _CHUNK_ROWS_MAX + 1)),
            timeout_s=section.duration("timeout", _TIMEOUT_S),
            retry=RetryPolicy.read(section),
        )

    @property
    def owned(self) -> tuple[str, ...]:
        """Nothing: several queries may write to one server."""
        return ()

    @property
    def target(self) -> str:
        """The commands and the server."""
        names = ", ".join(command[0].upper() for command in self.commands)
        return f"Redis {names} at {self.host}:{self.port}/{self.database}"

    def check(self, schema: StructType) -> None:
        """See `ChecksRows.check`."""
        for template in (template for command in self.commands for template in command):
            bytes_column(template, schema, "the command")

    def write(self, rows: DataFrame, batch: Batch) -> Written:
        """Run the commands of a batch in one transaction."""
        prepared = _Prepared(rows, self.commands)
        attempts = Attempts(self.retry)
        outcome = attempts.run(lambda: self._write_once(prepared, batch))
        # At once: the transaction is over, and a batch that is run again does not find them any more.
        refused = 0
        for row, reason in prepared.refused_rows(outcome.answers, self.batch_rows):
            batch.refuse(row, reason)
            refused += 1
        figures = {"rows": max(0, outcome.rows - refused), "commands": outcome.commands, "retries": attempts.retries}
        return Written(figures=figures | {"refused": refused, "repeated": int(outcome.is_repeated)})

    def _write_once(self, prepared: "_Prepared", batch: Batch) -> "_Outcome":
        with self._connected() as connection:
            transaction = _Transaction(connection, self.target, f"{_LEDGER_PREFIX}:{batch.owner}:{batch.query}")
            if not transaction.begin(batch.number):
                return _Outcome(is_repeated=True)
            row_count = 0
            for chunk in prepared.rows.chunks(self.batch_rows):
                transaction.queue(prepared.commands_of(chunk))
                row_count += chunk.num_rows
            answers = transaction.execute(batch.number)
            return _Outcome(rows=row_count, commands=row_count * len(self.commands), answers=answers)

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        try:
            import redis
        except ImportError as error:
            raise SinkError("Redis needs the package redis: pip install 'heliograph[sinks]'") from error
        client = self._client()
        try:
            connection = client.connection_pool.get_connection()
            yield connection
        except (redis.exceptions.AuthenticationError, redis.exceptions.NoPermissionError) as error:
            raise SinkError(f"{self.target}: {error}") from error
        except (redis.exceptions.ConnectionError, redis.exceptions.TimeoutError, OSError) as error:
            raise TransientError(f"{self.target}: {error}") from error
        except redis.exceptions.RedisError as error:
            raise _translated(self.target, error) from error
        finally:
            client.close()
            client.connection_pool.disconnect()

    def _client(self) -> "Redis":
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        tls: dict[str, Any] = {}
        if self.tls is not None:
            tls = {
                "ssl": True,
                "ssl_cert_reqs": "required" if self.tls.verify else "none",
                "ssl_check_hostname": self.tls.verify,
                "ssl_ca_certs": self.tls.cacertfile,
                "ssl_certfile": self.tls.certfile,
                "ssl_keyfile": self.tls.keyfile or self.tls.certfile,
            }
        return redis.Redis(
            host=self.host,
            port=self.port,
            db=self.database,
            username=self.username,
            password=self.password.reveal() if self.password is not None else None,
            socket_timeout=self.timeout_s,
            socket_connect_timeout=self.timeout_s,
            # One policy tries again, and it begins the transaction anew.
            retry=Retry(NoBackoff(), 0),
            **tls,
        )


@dataclass(frozen=True)
class _Outcome:
    rows: int = 0
    commands: int = 0
    is_repeated: bool = False
    answers: Sequence[object] = ()


class _Prepared:
    """The rows of a batch with the arguments of their commands behind them."""

    def __init__(self, rows: DataFrame, commands: tuple[_Command, ...]) -> None:
        self._names: list[list[str | bytes]] = []
        columns = []
        for number, command in enumerate(commands):
            arguments: list[str | bytes] = []
            for place, template in enumerate(command):
                if not placeholders(template):
                    arguments.append(template.encode())
                    continue
                name = f"heliograph_{number}_{place}"
                columns.append(bytes_column(template, rows.schema, "the command").alias(name))
                arguments.append(name)
            self._names.append(arguments)
        self.rows = ArrowRows(rows, computed=columns)

    def commands_of(self, chunk: Any) -> list[tuple[bytes, ...]]:
        """The commands of a chunk, row by row."""
        count = chunk.num_rows
        by_command = [
            list(zip(*(self._values(chunk, name, count) for name in arguments), strict=True))
            for arguments in self._names
        ]
        return [command for row in zip(*by_command, strict=True) for command in row]

    def refused_rows(self, answers: Sequence[object], chunk_rows: int) -> Iterator[tuple[dict[str, Any], str]]:
        """The rows of which a command was answered by an error; each row once."""
        each = len(self._names)
        errors: dict[int, str] = {}
        for index, answer in enumerate(answers):
            if isinstance(answer, Exception):
                errors.setdefault(index // each, str(answer)[:_TEXT_MAX])
        return self.rows.rows_at(chunk_rows, errors)

    @staticmethod
    def _values(chunk: Any, name: str | bytes, count: int) -> list[bytes]:
        return [name] * count if isinstance(name, bytes) else chunk.column(name).to_pylist()


class _Transaction:
    """One MULTI/EXEC over one connection, with the note of the batch in it."""

    def __init__(self, connection: Any, target: str, ledger: str) -> None:
        self._connection = connection
        self._target = target
        self._ledger = ledger

    def begin(self, batch: int) -> bool:
        """Begin; false if this batch was written before."""
        self._ask("WATCH", self._ledger)
        last = self._ask("HGET", self._ledger, "batch")
        if last is not None and int(last) >= batch:
            return False
        self._ask("MULTI")
        return True

    def queue(self, commands: list[tuple[bytes, ...]]) -> None:
        """Send commands, which Redis keeps until the end of the transaction."""
        self._connection.send_packed_command(self._connection.pack_commands(commands))
        for _ in commands:
            self._connection.read_response()

    def execute(self, batch: int) -> list[object]:
        """Run what was queued; the answers to the commands."""
        self.queue([(b"HSET", self._ledger.encode(), b"batch", b"%d" % batch)])
        answers = self._ask("EXEC")
        if answers is None:
            raise TransientError(f"{self._target}: another writer of this query has written {self._ledger}")
        return list(answers[:-1])

    def _ask(self, *command: str) -> Any:
        self._connection.send_command(*command)
        return self._connection.read_response()


def _translated(target: str, error: Exception) -> Exception:
    text = f"{target}: {str(error)[:_TEXT_MAX]}"
    if any(begin in str(error)[:60] for begin in _TRANSIENT_ANSWERS) or type(error).__name__ in (
        "BusyLoadingError",
        "OutOfMemoryError",
        "ReadOnlyError",
    ):
        return TransientError(text)
    return SinkError(text)


def _read_commands(section: Section) -> tuple[_Command, ...]:
    if ("command" in section.fields) == ("commands" in section.fields):
        raise section.mistake(f"{section.path} needs either command or commands: what to do with each row")
    key = "command" if "command" in section.fields else "commands"
    node = section.fields[key]
    items = node.value if key == "commands" and isinstance(node.value, list) else [node]
    commands = []
    for item in items:
        command = _command(item.value)
        if command is None:
            told = 'must be a list of texts, such as [HSET, "obs:${id}", temp, "${temp}"], or one text with blanks'
            raise section.mistake(f"{section.path}.{key} {told}", item)
        if command[0].upper() in _REFUSED_COMMANDS:
            raise section.mistake(f"{section.path}.{key}: {command[0]} cannot be part of a transaction", item)
        for fault in filter(None, map(template_fault, command)):
            hint = ": a name with blanks needs quotes around its argument" if isinstance(item.value, str) else ""
            raise section.mistake(f"{section.path}.{key}: {fault}{hint}", item)
        if placeholders(command[0]):
            raise section.mistake(f"{section.path}.{key}: the command itself cannot come from a row", item)
        commands.append(command)
    if not commands:
        raise section.mistake(f"{section.path}.{key} is empty", node)
    return tuple(commands)


def _command(value: object) -> _Command | None:
    if isinstance(value, str):
        try:
            return tuple(shlex.split(value)) or None
        except ValueError:
            return None
    if not isinstance(value, list) or not value:
        return None
    parts = [item.value for item in value]
    if not all(isinstance(part, str | int | float) and not isinstance(part, bool) for part in parts):
        return None
    return tuple(str(part) for part in parts)
