"""The sink `redis`: commands made of rows by templates, each micro-batch exactly once.

A batch is one MULTI/EXEC, so Redis applies all of it or nothing, and with it notes in a hash which batch it was: a
batch that is run again finds itself there and does nothing. The commands are sent while the rows come, in chunks whose
answers are awaited, so that the driver holds the commands of a chunk only; Redis queues those of the batch. How many
rows the driver holds says `arrow_rows`: a batch of a few partitions wholly. A cluster has one such transaction for each
hash slot, see `redis_cluster`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Final

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from heliograph.hocon.values import Content
from heliograph.pipeline.sinks.interface import Guarantee, MicroBatch, Written
from heliograph.pipeline.sinks.redis_cluster import ClusterBatch
from heliograph.pipeline.sinks.redis_commands import Command, CommandKind, PreparedCommands, RowCommand
from heliograph.pipeline.sinks.redis_servers import RedisServers, RedisType
from heliograph.pipeline.sinks.redis_transaction import (
    RedisTransaction,
    argument_bytes_max,
    await_replicas,
    oversized,
)
from heliograph.pipeline.sinks.retry import Attempts
from heliograph.pipeline.sinks.servers import ServerAddress, ServerSink
from heliograph.pipeline.sinks.template import bytes_column
from heliograph.settings.fields import ListOf, list_setting, optional, setting
from heliograph.settings.kinds import Duration, Integer, Kind, RefusedError, SecretText, Text, Words
from heliograph.settings.secrets import Secret
from heliograph.settings.units import Address

_ANY_PORT: Final = ServerAddress(6379)
# Of each type the settings that it needs, and all that it has.
_KEYS: Final = {
    RedisType.SINGLE: (("server",), ("server", "database")),
    RedisType.SENTINEL: (
        ("servers", "sentinel"),
        ("servers", "sentinel", "database", "sentinel_username", "sentinel_password"),
    ),
    RedisType.CLUSTER: (("servers",), ("servers",)),
}
_LEDGER_PREFIX: Final = "heliograph"


class ServerAddresses(Kind[tuple[str, ...]]):
    """Where several servers are."""

    expected = "a list of host:port or hosts, or a text with commas between"

    def convert(self, value: Content) -> tuple[str, ...]:
        """Their addresses, of which the port may be missing."""
        parts: list[Content] = list(value.split(",")) if isinstance(value, str) else []
        parts = [item.value for item in value] if isinstance(value, list) else parts
        addresses = [str(part).strip() for part in parts]
        for address in addresses:
            _ANY_PORT.convert(address)
        if not parts:
            raise RefusedError
        return tuple(addresses)


@dataclass(frozen=True)
class RedisSink(ServerSink):
    """Rows become commands."""

    guarantee: ClassVar[Guarantee] = Guarantee.EXACTLY_ONCE

    command: Command | None = optional(CommandKind(), "What is done with each row; this or `commands`.")
    listed: tuple[Command, ...] = list_setting(
        ListOf(CommandKind(), at_least=1), (), "Several commands for each row.", name="commands"
    )
    redis_type: RedisType = setting(
        Words({kind.value: kind for kind in RedisType}), RedisType.SINGLE, "What there is at the addresses."
    )
    address: Address | None = optional(ServerAddress(6379), "Of `single`: where the server is.", name="server")
    addresses: tuple[str, ...] | None = optional(
        ServerAddresses(),
        "Of `sentinel` the sentinels (port 26379), of `cluster` some of its nodes (port 6379).",
        name="servers",
    )
    sentinel: str | None = optional(
        Text("a name"), "Of `sentinel`: the name under which the sentinels know the primary."
    )
    sentinel_username: str | None = optional(Text("a user name"), "Who asks the sentinels.")
    sentinel_password: Secret | None = optional(SecretText(), "The password for it.")
    database: int = setting(Integer(0, 1023), 0, "Number of the database; a cluster has none.")
    wait_replicas: int = setting(Integer(0, 100), 0, "How many replicas must have a batch before it is done.")
    batch_rows: int = setting(
        Integer(1, 100_000), 1_000, "Rows whose commands are sent before their answers are awaited."
    )
    timeout_s: float = setting(Duration(0.001), 30.0, "How long an answer may take.", name="timeout")

    def __post_init__(self) -> None:
        if (self.command is None) == (not self.listed):
            raise RefusedError("needs either command or commands: what to do with each row")
        given = {
            "server": self.address,
            "servers": self.addresses,
            "sentinel": self.sentinel,
            "database": self.database,
            "sentinel_username": self.sentinel_username,
            "sentinel_password": self.sentinel_password,
        }
        needed, own = _KEYS[self.redis_type]
        for name, value in given.items():
            if value and name not in own:
                raise RefusedError(f"is not for redis_type = {self.redis_type}, which has {', '.join(own)}", name)
            if not value and name in needed:
                raise RefusedError(f"has no {name}, which redis_type = {self.redis_type} needs")

    @property
    def commands(self) -> tuple[Command, ...]:
        """What is done with each row."""
        return self.listed if self.command is None else (self.command,)

    @property
    def servers(self) -> RedisServers:
        """Where the commands go."""
        several = ServerAddress(26379 if self.redis_type is RedisType.SENTINEL else 6379)
        one = (self.address,) if self.address is not None else ()
        return RedisServers(
            kind=self.redis_type,
            addresses=one or tuple(several.convert(text) for text in self.addresses or ()),
            sentinel=self.sentinel or "",
            database=self.database,
            username=self.username,
            password=self.password,
            sentinel_username=self.sentinel_username,
            sentinel_password=self.sentinel_password,
            tls=self.tls,
            timeout_s=self.timeout_s,
        )

    @property
    def target(self) -> str:
        """The commands and the server."""
        names = ", ".join(command[0].upper() for command in self.commands)
        return f"Redis {names} at {self.servers.place}"

    def check(self, schema: StructType) -> None:
        """See `ChecksRows.check`."""
        for template in (template for command in self.commands for template in command):
            bytes_column(template, schema, "the command")

    def write(self, rows: DataFrame, batch: MicroBatch) -> Written:
        """Run the commands of a batch: in one transaction, or in a cluster in one for each slot."""
        prepared = PreparedCommands(rows, self.commands)
        attempts = Attempts(self.retry)
        outcome = _Outcome()
        if self.servers.kind is RedisType.CLUSTER:
            whole = ClusterBatch(self.servers, self.target, prepared, batch, self.wait_replicas, _LEDGER_PREFIX)
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
        with self.servers.primary(self.target) as connection:
            bytes_max = argument_bytes_max(connection)
            transaction = RedisTransaction(connection, self.target, f"{_LEDGER_PREFIX}:{batch.owner}:{batch.query}")
            if not transaction.is_due(batch.number):
                if self.wait_replicas:
                    transaction.confirm(batch.number)
                    await_replicas(connection, self.target, self.wait_replicas, self.servers.timeout_s)
                # An attempt before, whose answer was lost or whose replicas were late, may be what wrote it.
                outcome.is_repeated = not outcome.rows
                return
            tried = _Outcome()
            answered = transaction.write(batch.number, lambda: self._sendable(prepared, bytes_max, tried))
            outcome.rows, outcome.commands = tried.rows, transaction.command_count
            outcome.refused = tried.refused | answered
            await_replicas(connection, self.target, self.wait_replicas, self.servers.timeout_s)

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
        rows: Rows whose commands were carried out, and those that were refused.
        commands: Commands that were carried out.
        refused: The errors of rows with a command that failed, by row number.
        is_repeated: Whether the batch was there already.
    """

    rows: int = 0
    commands: int = 0
    refused: dict[int, str] = field(default_factory=dict)
    is_repeated: bool = False
