"""The level of the log of a node, until it is configured otherwise."""

import logging

from heliograph.control.proto_v1 import log as proto
from heliograph.observe.log_format import LEVELS
from heliograph.observe.log_output import LogOutput
from heliograph.rpc.methods import Call, Method, NoArgs


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
        """Answer `log.level`: that of the place that takes most."""
        return proto.LogLevel(logging.getLevelName(logging.getLogger().level).lower())

    def set_level(self, args: proto.LogLevelWanted, call: Call) -> proto.LogLevel:
        """Answer `log.set_level`: another level for all places, until the settings change or the node starts."""
        output = LogOutput.installed()
        if output is not None:
            output.set_level(args.level)
        else:  # a program that has a log of its own
            logging.getLogger().setLevel(LEVELS[args.level])
        return self.level(NoArgs(), call)
