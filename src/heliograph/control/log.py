"""The newest entries of the log of a node, and its level until it is configured otherwise."""

import logging
from collections import deque
from collections.abc import Iterator

from heliograph.control.proto_v1 import log as proto
from heliograph.control.slices import in_slices
from heliograph.observe.log_format import LEVELS
from heliograph.observe.log_output import LogOutput
from heliograph.observe.log_ring import LogEntry
from heliograph.observe.ring import Ring
from heliograph.rpc.methods import Call, Method, NoArgs


def methods(recent: Ring[LogEntry]) -> list[Method]:
    """What can be asked: `log.level`, `log.set_level`, `log.entries`.

    Args:
        recent: The newest entries.
    """
    answers = LogAnswers()

    def entries(args: proto.LogEntriesWanted, call: Call) -> Iterator[list[proto.LogEntryRow]]:
        return in_slices(_entries(recent, args), lambda row: len(row.text) + len(row.error))

    return [
        proto.LOG_ENTRIES.by(entries),
        proto.LOG_LEVEL.by(answers.level),
        proto.LOG_SET_LEVEL.by(answers.set_level),
    ]


class LogAnswers:
    def level(self, args: NoArgs, call: Call) -> proto.LogLevel:
        return proto.LogLevel(logging.getLevelName(logging.getLogger().level).lower())

    def set_level(self, args: proto.LogLevelWanted, call: Call) -> proto.LogLevel:
        """Answer `log.set_level`: another level for all places, until the settings change or the node starts."""
        output = LogOutput.installed()
        if output is not None:
            output.set_level(args.level)
        else:  # a program that has a log of its own
            logging.getLogger().setLevel(LEVELS[args.level])
        return self.level(NoArgs(), call)


def _entries(recent: Ring[LogEntry], wanted: proto.LogEntriesWanted) -> Iterator[proto.LogEntryRow | None]:
    """The newest that are wanted, the oldest of them first; None after each piece of work."""
    found: deque[tuple[int, LogEntry]] = deque(maxlen=max(1, wanted.limit))
    least = LEVELS[wanted.level]
    for number, entry in recent.after(wanted.after, len(recent)):
        if entry.level >= least:
            found.append((number, entry))
        yield None
    for number, entry in found:
        level = logging.getLevelName(entry.level).lower()
        yield proto.LogEntryRow(number, entry.at_ns // 1000, level, entry.logger, entry.text, entry.error)
