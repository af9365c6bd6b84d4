"""What can be asked of the logins that have to wait since others failed, and done with them."""

from collections.abc import Callable, Iterator, Sequence

from heliograph.access.bans.failed_logins import FailedLogins
from heliograph.control.proto_v1 import logins as proto
from heliograph.control.slices import in_slices
from heliograph.rpc.methods import Call, Method, NoArgs, RpcError


def methods(logins: FailedLogins, clock: Callable[[], int]) -> list[Method]:
    """What can be asked: `logins.list`, `logins.lift`.

    Args:
        clock: Microseconds on the monotonic clock.
    """
    answers = LoginsAnswers(logins, clock)
    return [
        proto.LOGINS_LIST.by(answers.list),
        proto.LOGINS_LIFT.by(answers.lift),
    ]


class LoginsAnswers:
    def __init__(self, logins: FailedLogins, clock: Callable[[], int]) -> None:
        self._logins = logins
        self._clock = clock

    def list(self, args: NoArgs, call: Call) -> Iterator[Sequence[proto.WaitingLoginRow]]:
        now = self._clock()
        rows = (
            proto.WaitingLoginRow(one.address, one.name, max(0.0, (one.until_us - now) / 1e6), one.is_device)
            for one in self._logins.waiting(now)
        )
        return in_slices(rows, lambda row: len(row.name))

    def lift(self, args: proto.LoginAddress, call: Call) -> proto.LoginsLifted:
        """Answer `logins.lift`: those of an address need not wait any more.

        Raises:
            RpcError: None of that address waits.
        """
        count = self._logins.lift(args.address)
        if not count:
            raise RpcError("not_found", f"no login from {args.address!r} waits; `ctl logins list` shows those that do")
        return proto.LoginsLifted(count)
