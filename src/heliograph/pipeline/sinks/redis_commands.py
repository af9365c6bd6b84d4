"""The commands of the sink `redis`: templates in a pipeline file, and the arguments made of them for each row."""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from heliograph.hocon.values import Content
from heliograph.pipeline.sinks.rows import PREFIX, Derived, Rows, rows_at
from heliograph.pipeline.sinks.template import placeholders, template_fault
from heliograph.settings.kinds import Kind, RefusedError

# They would end or break the transaction, or never answer.
_REFUSED_COMMANDS: Final = frozenset(
    {"MULTI", "EXEC", "DISCARD", "WATCH", "UNWATCH", "SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "UNSUBSCRIBE"}
    | {"PUNSUBSCRIBE", "SUNSUBSCRIBE", "MONITOR", "SYNC", "PSYNC", "QUIT", "RESET", "AUTH", "HELLO", "SELECT", "CLIENT"}
    | {"ASKING", "READONLY", "READWRITE", "WAIT"}
)

#: The templates of a command, and the arguments made of them.
Command = tuple[str, ...]
Arguments = tuple[bytes, ...]


@dataclass(frozen=True)
class RowCommand:
    row: int
    arguments: Arguments


class PreparedCommands:
    """The rows of a batch with the arguments of their commands. They can be gone through as often as wanted."""

    def __init__(self, rows: Rows, commands: tuple[Command, ...]) -> None:
        self.commands = commands
        self._rows = rows
        self._names: list[list[str | bytes]] = [
            [
                f"{PREFIX}{_argument(number, place)}" if placeholders(template) else template.encode()
                for place, template in enumerate(command)
            ]
            for number, command in enumerate(commands)
        ]

    def __repr__(self) -> str:
        return f"PreparedCommands({', '.join(command[0] for command in self.commands)})"

    def chunks(self, rows_max: int) -> Iterator[list[RowCommand]]:
        begin = 0
        for chunk in self._rows.chunks(rows_max):
            by_command = [
                list(zip(*(_values(chunk, name) for name in arguments), strict=True)) for arguments in self._names
            ]
            yield [
                RowCommand(begin + number, command)
                for number, row in enumerate(zip(*by_command, strict=True))
                for command in row
            ]
            begin += chunk.num_rows

    def rows_at(self, chunk_rows: int, reasons: Mapping[int, str]) -> Iterator[tuple[dict[str, Any], str]]:
        return rows_at(self._rows, chunk_rows, reasons)


def derived_arguments(commands: tuple[Command, ...]) -> list[Derived]:
    """The arguments that are made of rows."""
    return [
        Derived(_argument(number, place), template, "the command")
        for number, command in enumerate(commands)
        for place, template in enumerate(command)
        if placeholders(template)
    ]


def _argument(command: int, place: int) -> str:
    return f"{command}_{place}"


class CommandKind(Kind[Command]):
    expected = 'a list of texts, as in [HSET, "obs:${id}", temp, "${temp}"], or one text with blanks'

    def convert(self, value: Content) -> Command:
        command = _command(value)
        if command is None:
            raise RefusedError
        if command[0].upper() in _REFUSED_COMMANDS:
            raise RefusedError(f"{command[0]} cannot be part of a transaction")
        for fault in filter(None, map(template_fault, command)):
            hint = ": a name with blanks needs quotes around its argument" if isinstance(value, str) else ""
            raise RefusedError(f"{fault}{hint}")
        if placeholders(command[0]):
            raise RefusedError("the command itself cannot come from a row")
        return command


def _values(chunk: pa.RecordBatch, name: str | bytes) -> list[bytes]:
    if isinstance(name, bytes):
        return [name] * int(chunk.num_rows)
    values: list[bytes] = chunk.column(name).to_pylist()
    return values


def _command(value: object) -> Command | None:
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
