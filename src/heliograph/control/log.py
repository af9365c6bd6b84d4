"""The level of the log of a node, until it is configured otherwise."""

import logging
from typing import Final

from heliograph.control.proto_v1 import log as proto
from heliograph.rpc.methods import Call, Method, NoArgs

# EMQX's levels that Python's log has no name for.
_LEVELS: Final = {"notice": logging.INFO, "alert": logging.CRITICAL, "emergency": logging.CRITICAL}


def methods() -> list[Method]:
    """What can be asked: `log.level`, `log.set_level`."""
    answers = LogAnswers()
    return [
        Method("log.level", NoArgs, answers.level),
        Method("log.set_level", proto.LogLevelWanted, answers.set_level, is_action=True),
    ]


class LogAnswers:
    """Answers what is asked of the log; owned by the control socket."""

    def level(self, args: NoArgs, call: Call) -> proto.LogLevel:
        """Answer `log.level`."""
        return proto.LogLevel(logging.getLevelName(logging.getLogger().level).lower())

    def set_level(self, args: proto.LogLevelWanted, call: Call) -> proto.LogLevel:
        """Answer `log.set_level`: another level, until it is configured or the node starts."""
        logging.getLogger().setLevel(_LEVELS.get(args.level) or args.level.upper())
        return self.level(NoArgs(), call)
