"""What can be asked of the alarms of a node, and done with them."""

from collections.abc import Iterator, Sequence

from heliograph.control.proto_v1 import alarms as proto
from heliograph.control.slices import in_slices
from heliograph.observe.alarms import Alarm, Alarms
from heliograph.rpc.methods import Call, Method, NoArgs, RpcError


def methods(alarms: Alarms) -> list[Method]:
    answers = AlarmsAnswers(alarms)
    return [
        proto.ALARMS_LIST.by(answers.list),
        proto.ALARMS_DEACTIVATE.by(answers.deactivate),
        proto.ALARMS_CLEAR.by(answers.clear),
    ]


class AlarmsAnswers:
    def __init__(self, alarms: Alarms) -> None:
        self._alarms = alarms

    def list(self, args: proto.AlarmsWanted, call: Call) -> Iterator[Sequence[proto.AlarmRow]]:
        """Answer `alarms.list`: those that are active, or ended; a thousand at most, copied in microseconds."""
        # A thousand at most: the list of them is copied in a few microseconds.
        alarms = self._alarms.history() if args.history else self._alarms.active()
        return in_slices(_row(alarm) for alarm in alarms)

    def deactivate(self, args: proto.AlarmName, call: Call) -> proto.AlarmRow:
        alarm = next((one for one in self._alarms.active() if one.name == args.name), None)
        if alarm is None or not self._alarms.deactivate(args.name):
            active = ", ".join(one.name for one in self._alarms.active()[:20]) or "none"
            raise RpcError("not_found", f"no alarm {args.name!r} is active; active are: {active}")
        return _row(alarm)

    def clear(self, args: NoArgs, call: Call) -> proto.AlarmsCleared:
        return proto.AlarmsCleared(self._alarms.clear_history())


def _row(alarm: Alarm) -> proto.AlarmRow:
    times = alarm.activate_at, alarm.deactivate_at
    return proto.AlarmRow(alarm.name, alarm.message, dict(alarm.details), *times, alarm.severity)
