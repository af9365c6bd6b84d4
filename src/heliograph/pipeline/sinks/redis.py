"""The sink `redis`: commands made of rows by templates, each micro-batch exactly once.

A batch is one MULTI/EXEC, so Redis applies all of it or nothing, and with it notes in a hash which batch it was: a
batch that is run again finds itself there and does nothing. The commands are sent while the rows come, in chunks whose
answers are awaited, so that the driver holds the commands of a chunk only; Redis queues those of the batch. How many
rows the driver holds says `arrow_rows`: a batch of a few partitions wholly. A cluster has one such transaction for each
hash slot, see `redis_cluster`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

from heliograph.pipeline.sinks.interface import Guarantee, MicroBatch, Written
from heliograph.pipeline.sinks.redis_cluster import ClusterBatch
from heliograph.pipeline.sinks.redis_commands import (
    Command,
    CommandKind,
    PreparedCommands,
    RowCommand,
    derived_arguments,
)
from heliograph.pipeline.sinks.redis_servers import RedisServers
from heliograph.pipeline.sinks.redis_transaction import RedisTransaction, argument_bytes_max, await_replicas, oversized
from heliograph.pipeline.sinks.retry import Attempts
from heliograph.pipeline.sinks.rows import Derived, Rows
from heliograph.settings.fields import ListOf, list_setting, optional, setting
from heliograph.settings.kinds import Integer, RefusedError
from heliograph.settings.redis import RedisType

_LEDGER_PREFIX: Final = "heliograph"


@dataclass(frozen=True)
class RedisSink(RedisServers):
    guarantee: ClassVar[Guarantee] = Guarantee.EXACTLY_ONCE

    command: Command | None = optional(CommandKind(), "What is done with each row; this or `commands`.")
    listed: tuple[Command, ...] = list_setting(
        ListOf(CommandKind(), at_least=1), (), "Several commands for each row.", name="commands"
    )
    wait_replicas: int = setting(Integer(0, 100), 0, "How many replicas must have a batch before it is done.")
    batch_rows: int = setting(
        Integer(1, 100_000), 1_000, "Rows whose commands are sent before their answers are awaited."
    )

    def __post_init__(self) -> None:
        if (self.command is None) == (not self.listed):
            raise RefusedError("needs either command or commands: what to do with each row")
        super().__post_init__()

    @property
    def commands(self) -> tuple[Command, ...]:
        return self.listed if self.command is None else (self.command,)

    @property
    def target(self) -> str:
        names = ", ".join(command[0].upper() for command in self.commands)
        return f"Redis {names} at {self.place}"

    @property
    def derived(self) -> Sequence[Derived]:
        return derived_arguments(self.commands)

    def write(self, rows: Rows, batch: MicroBatch) -> Written:
        prepared = PreparedCommands(rows, self.commands)
        attempts = Attempts(self.retry, tell=batch.tell_retry)
        outcome = _Outcome()
        if self.redis_type is RedisType.CLUSTER:
            whole = ClusterBatch(self, self.target, prepared, batch, self.wait_replicas, _LEDGER_PREFIX)
            attempts.run(whole.write)
            is_repeated = bool(whole.row_count) and not whole.rows and not whole.refused
            outcome = _Outcome(len(whole.rows | whole.refused.keys()), whole.command_count, whole.refused, is_repeated)
        else:
            attempts.run(lambda: self._write_once(prepared, batch, outcome))
        # At once: the transaction is over, and a batch that is run again does not find them any more.
        refused = 0
        for row, reason in prepared.rows_at(self.batch_rows, outcome.refused):
            batch.refuse(row, reason)
            refused += 1
        figures = {"rows": outcome.rows - refused, "commands": outcome.commands, "retries": attempts.retries}
        return Written(figures=figures | {"refused": refused, "repeated": int(outcome.is_repeated)})

    def _write_once(self, prepared: PreparedCommands, batch: MicroBatch, outcome: "_Outcome") -> None:
        with self.primary(self.target) as connection:
            bytes_max = argument_bytes_max(connection)
            transaction = RedisTransaction(connection, self.target, f"{_LEDGER_PREFIX}:{batch.owner}:{batch.query}")
            if not transaction.is_due(batch.number):
                if self.wait_replicas:
                    transaction.confirm(batch.number)
                    await_replicas(connection, self.target, self.wait_replicas, self.timeout_s)
                # An attempt before, whose answer was lost or whose replicas were late, may be what wrote it.
                outcome.is_repeated = not outcome.rows
                return
            tried = _Outcome()
            answered = transaction.write(batch.number, lambda: self._sendable(prepared, bytes_max, tried))
            outcome.rows, outcome.commands = tried.rows, transaction.command_count
            outcome.refused = tried.refused | answered
            await_replicas(connection, self.target, self.wait_replicas, self.timeout_s)

    def _sendable(self, prepared: PreparedCommands, bytes_max: int, tried: "_Outcome") -> Iterator[list[RowCommand]]:
        """The commands in chunks, without rows that are too long; all rows and those are noted."""
        tried.rows, tried.refused = 0, {}
        for chunk in prepared.chunks(self.batch_rows):
            too_long = oversized(chunk, bytes_max)
            tried.rows += len(chunk) // len(self.commands)
            tried.refused |= too_long
            yield [command for command in chunk if command.row not in too_long] if too_long else chunk


@dataclass
class _Outcome:
    """What the attempts to write a batch came to.

    Attributes:
        refused: The errors of rows with a command that failed, by row number.
    """

    rows: int = 0
    commands: int = 0
    refused: dict[int, str] = field(default_factory=dict)
    is_repeated: bool = False
