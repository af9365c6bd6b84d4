"""One MULTI/EXEC of the sink `redis` over one connection, with the note of the batch in it.

The note, a hash, says which batch was written last. It is watched before it is read: a writer that was killed may have
left a transaction on its way to the server, and only one of the two is carried out.

Pipelines of redis-py do not do that: after a lost connection the one for clusters repeats EXEC on another, which
watches nothing; it names only the first command that was not queued, and gives the connection back before WAIT.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from heliograph.pipeline.sinks.redis_commands import Arguments, RowCommand
from heliograph.pipeline.sinks.retry import TransientError

_FIELD: Final = b"batch"
# Redis's own limit of an argument, where the server does not tell.
_ARGUMENT_BYTES: Final = 512 << 20
_REASON_MAX: Final = 500
# Said of a key or a channel; of a command the server says that there are no permissions to run it.
_DENIED: Final = "permissions to access"


class RedisTransaction:
    """A transaction, owned by the attempt that writes it. After `write` the connection is free for another one."""

    def __init__(self, connection: Any, target: str, ledger: str) -> None:
        self._connection = connection
        self._target = target
        self._ledger = ledger.encode()
        self._rows: list[int] = []

    def __repr__(self) -> str:
        return f"RedisTransaction({self._ledger.decode()}, {len(self._rows)} commands)"

    def is_due(self, batch: int) -> bool:
        """Whether this batch was not written before; from here on the note is watched."""
        _, last = self._ask((b"WATCH", self._ledger), (b"HGET", self._ledger, _FIELD))
        return last is None or int(last) < batch

    @property
    def command_count(self) -> int:
        return len(self._rows)

    def write(self, batch: int, chunks: Callable[[], Iterable[Sequence[RowCommand]]]) -> dict[int, str]:
        """Run the commands of a batch, with the note.

        Redis drops a transaction if it did not queue one of its commands. If the keys of the command are the cause,
        the transaction is repeated without the rows of such commands.

        Args:
            chunks: Gives the commands, the same each time.

        Returns:
            What the server answered for rows with a command that failed or was not queued, by row number.
        """
        denied: dict[int, str] = {}
        while True:
            self._begin()
            found: dict[int, str] = {}
            for chunk in chunks():
                found |= self._queue([command for command in chunk if command.row not in denied])
            if not found:
                return denied | self._execute(batch)
            denied |= found
            self._ask((b"DISCARD",))
            # That has ended the watch, too.
            if not self.is_due(batch):
                raise self._overtaken()

    def _begin(self) -> None:
        self._rows.clear()
        self._ask((b"MULTI",))

    def _queue(self, commands: Sequence[RowCommand]) -> dict[int, str]:
        """Send commands; the rows of those that the server does not take for their keys, with what it says."""
        import redis

        self._rows += [command.row for command in commands]
        self._send(*(command.arguments for command in commands))
        denied: dict[int, str] = {}
        for command in commands:
            try:
                self._connection.read_response()
            except redis.exceptions.ClusterCrossSlotError as error:
                denied.setdefault(command.row, str(error)[:_REASON_MAX])
            except redis.exceptions.NoPermissionError as error:
                if _DENIED not in str(error):
                    raise
                denied.setdefault(command.row, str(error)[:_REASON_MAX])
        return denied

    def _execute(self, batch: int) -> dict[int, str]:
        *_, answers = self._ask((b"HSET", self._ledger, _FIELD, b"%d" % batch), (b"EXEC",))
        if answers is None:
            raise self._overtaken()
        refused: dict[int, str] = {}
        for row, answer in zip(self._rows, answers[:-1], strict=True):
            if isinstance(answer, Exception):
                refused.setdefault(row, str(answer)[:_REASON_MAX])
        return refused

    def leave(self) -> None:
        self._ask((b"UNWATCH",))

    def confirm(self, batch: int) -> None:
        """Write the note of a batch that is there once more, so that replicas can be waited for on this connection."""
        self._begin()
        self._execute(batch)

    def _ask(self, *commands: Arguments) -> list[Any]:
        self._send(*commands)
        return [self._connection.read_response() for _ in commands]

    def _send(self, *commands: Arguments) -> None:
        if commands:
            self._connection.send_packed_command(self._connection.pack_commands(commands))

    def _overtaken(self) -> TransientError:
        return TransientError(f"{self._target}: another writer of this query has written {self._ledger.decode()}")


def await_replicas(connection: Any, target: str, count: int, timeout_s: float) -> None:
    if not count:
        return
    # Less than the time for which the connection waits for this answer.
    connection.send_command("WAIT", count, max(1, round(timeout_s * 500)))
    reached = int(connection.read_response())
    if reached < count:
        raise TransientError(f"{target}: {reached} of {count} replicas have taken the batch")


def argument_bytes_max(connection: Any) -> int:
    """How long an argument the server takes; it cuts the connection at a longer one."""
    import redis

    connection.send_command("CONFIG", "GET", "proto-max-bulk-len")
    try:
        answer = connection.read_response()
    except redis.exceptions.ResponseError:
        return _ARGUMENT_BYTES  # a user may not ask, and some services know no CONFIG
    values = list(answer.values()) if isinstance(answer, dict) else answer[1:]
    return int(values[0]) if values else _ARGUMENT_BYTES


def oversized(commands: Sequence[RowCommand], bytes_max: int) -> dict[int, str]:
    """The rows with an argument that the server does not take, by their numbers, with the reason."""
    found = {}
    for command in commands:
        size = max(map(len, command.arguments))
        if size > bytes_max:
            found[command.row] = f"an argument has {size:,} bytes, and the server takes {bytes_max:,}"
    return found
