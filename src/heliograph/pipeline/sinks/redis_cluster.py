"""The sink `redis` in a cluster: a batch is one transaction for each hash slot, each exactly once.

A transaction of Redis Cluster has the keys of one slot only. So the commands of a batch are sorted by the slot of their
keys, in their order, and each slot has its own note of the last batch, under a key of that slot. A batch that runs
again finds the slots that have it and writes the others. What cannot be had is the batch in one step: a reader may see
some slots of it before others.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import cycle
from typing import Any, Final

from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.sinks.interface import MicroBatch
from heliograph.pipeline.sinks.redis_commands import Arguments, Command, PreparedCommands, RowCommand
from heliograph.pipeline.sinks.redis_servers import RedisServers
from heliograph.pipeline.sinks.redis_transaction import RedisTransaction, argument_bytes_max, await_replicas, oversized
from heliograph.pipeline.sinks.retry import TransientError
from heliograph.pipeline.sinks.template import placeholders
from heliograph.settings.units import Address

_SLOTS: Final = 16_384
_CHUNK: Final = 1_000
# Where the server lists which other commands are part of a command, such as CREATE of XGROUP; before Redis 7 nowhere.
_SUBCOMMANDS: Final = 9
_EVALUATING: Final = frozenset({"EVAL", "EVAL_RO", "EVALSHA", "EVALSHA_RO", "FCALL", "FCALL_RO"})


class ClusterBatch:
    """One batch on its way into a cluster. Owned by the sink while it writes; attempts go on where earlier ones ended.

    Args:
        prepared: The commands; all of them are held until the batch is written.
        ledger_prefix: How the keys of the notes begin.
    """

    def __init__(
        self,
        servers: RedisServers,
        target: str,
        prepared: PreparedCommands,
        batch: MicroBatch,
        replicas: int,
        ledger_prefix: str,
    ) -> None:
        self.row_count = 0
        self.rows: set[int] = set()
        self.command_count = 0
        self.refused: dict[int, str] = {}
        self._servers = servers
        self._target = target
        self._prepared = prepared
        self._batch = batch
        self._replicas = replicas
        self._ledger_prefix = ledger_prefix
        self._waiting: dict[int, list[RowCommand]] | None = None

    def __repr__(self) -> str:
        left = "unsorted" if self._waiting is None else f"{len(self._waiting)} slots left"
        return f"ClusterBatch({self._batch.query!r}, batch {self._batch.number}, {left})"

    def write(self) -> None:
        nodes = self._nodes()
        waiting = self._waiting
        assert waiting is not None
        by_node: dict[Address, list[int]] = {}
        for slot in waiting:
            if slot not in nodes:
                raise TransientError(f"{self._target}: no node has the slot {slot} now")
            by_node.setdefault(nodes[slot], []).append(slot)
        for address, slots in by_node.items():
            with self._servers.connected(self._target, address) as connection:
                for slot in slots:
                    self._write_slot(connection, slot, waiting[slot])
                await_replicas(connection, self._target, self._replicas, self._servers.timeout_s)
            for slot in slots:
                del waiting[slot]

    def _write_slot(self, connection: Any, slot: int, commands: Sequence[RowCommand]) -> None:
        ledger = f"{self._ledger_prefix}:{{{tag_of(slot)}}}:{self._batch.owner}:{self._batch.query}"
        transaction = RedisTransaction(connection, self._target, ledger)
        if not transaction.is_due(self._batch.number):
            if self._replicas:
                transaction.confirm(self._batch.number)
            else:
                transaction.leave()
            return
        chunks = [commands[begin : begin + _CHUNK] for begin in range(0, len(commands), _CHUNK)]
        refused = transaction.write(self._batch.number, lambda: chunks)
        for row, reason in refused.items():
            self.refused.setdefault(row, reason)
        self.rows.update(command.row for command in commands)
        self.command_count += transaction.command_count

    def _nodes(self) -> Mapping[int, Address]:
        """Which node has each slot; the first time, sort the commands too."""
        problem: Exception | None = None
        for address in self._servers.addresses:
            try:
                with self._servers.connected(self._target, address) as connection:
                    connection.send_command("CLUSTER", "SLOTS")
                    nodes = _nodes_of(connection.read_response(), address)
                    if self._waiting is None:
                        self._waiting = self._sorted(connection)
            except TransientError as error:
                problem = error
            else:
                return nodes
        raise TransientError(str(problem))

    def _sorted(self, connection: Any) -> dict[int, list[RowCommand]]:
        keys = [_Keys.of(connection, command) for command in self._prepared.commands]
        bytes_max = argument_bytes_max(connection)
        by_slot: dict[int, list[RowCommand]] = {}
        for chunk in self._prepared.chunks(_CHUNK):
            refused = oversized(chunk, bytes_max)
            slots = [known.slots(command.arguments) for command, known in zip(chunk, cycle(keys), strict=False)]
            for command, found in zip(chunk, slots, strict=True):
                if len(found) > 1:
                    name = command.arguments[0].decode()
                    refused.setdefault(command.row, f"the keys of {name} lie in several slots of the cluster")
            self.refused |= refused
            for command, found in zip(chunk, slots, strict=True):
                if command.row not in refused:
                    by_slot.setdefault(min(found, default=0), []).append(command)
            self.row_count += len({command.row for command in chunk})
        return by_slot


@dataclass(frozen=True)
class _Keys:
    """Which arguments of a command are keys, as the server tells: the first, the last, and the step between them."""

    first: int
    last: int
    step: int
    is_evaluating: bool = False

    @staticmethod
    def of(connection: Any, command: Command) -> "_Keys":
        name = command[0].upper()
        information = _information(connection, name)
        if name in _EVALUATING:
            return _Keys(3, 3, 1, is_evaluating=True)
        if len(information) > _SUBCOMMANDS and information[_SUBCOMMANDS]:
            if len(command) < 2 or placeholders(command[1]):
                raise SinkError(f"{name} has subcommands, of which a cluster needs one that does not come from a row")
            name = f"{name}|{command[1].upper()}"
            information = _information(connection, name)
        if b"movablekeys" in {_bytes(flag) for flag in information[2]}:
            raise SinkError(f"which arguments of {name} are keys is unknown, so it cannot be used in a cluster")
        first, last, step = (int(part) for part in information[3:6])
        return _Keys(first, last, step)

    def slots(self, arguments: Arguments) -> set[int]:
        """The slots of the keys; none for a command without keys."""
        from redis.crc import key_slot

        if not self.first:
            return set()
        last = self.last if self.last >= 0 else len(arguments) + self.last
        if self.is_evaluating:
            count = arguments[2] if len(arguments) > 2 else b"0"
            last = 2 + (int(count) if count.isdigit() else 0)
        keys: Iterable[bytes] = arguments[self.first : last + 1 : self.step or 1]
        return {key_slot(key) for key in keys}


def tag_of(slot: int) -> str:
    """A text that, in braces, puts a key into a slot."""
    return _tags()[slot]


@cache
def _tags() -> tuple[str, ...]:
    from redis.crc import key_slot

    found: dict[int, str] = {}
    number = 0
    while len(found) < _SLOTS:
        tag = f"{number:x}"
        found.setdefault(key_slot(tag.encode()), tag)
        number += 1
    return tuple(found[slot] for slot in range(_SLOTS))


def _information(connection: Any, name: str) -> Sequence[Any]:
    connection.send_command("COMMAND", "INFO", name)
    (slots,) = connection.read_response() or (None,)
    if slots is None:
        raise SinkError(f"the cluster knows no command {name}")
    found: Sequence[Any] = slots
    return found


def _nodes_of(slots: Sequence[Any], asked: Address) -> dict[int, Address]:
    nodes: dict[int, Address] = {}
    for begin, end, primary, *_ in slots:
        # A node that does not know its own address leaves it out.
        host = _bytes(primary[0] or b"").decode()
        address = Address(host if host not in ("", "?") else asked.host, int(primary[1]))
        for slot in range(int(begin), int(end) + 1):
            nodes[slot] = address
    return nodes


def _bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text
