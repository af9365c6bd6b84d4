"""Gives the rows that the target of an action refuses to its fallback actions, by the node that has them.

The node answers when it has stored or published them, so a batch is not over before.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from heliograph.actions.fallback_calls import ACTIONS_FALL_BACK, FallbackOutcome, FallbackRow, FallbackRows
from heliograph.pipeline.sinks.retry import Attempts, RetryPolicy, TransientError
from heliograph.rpc.asks import Question
from heliograph.rpc.client import RpcClient
from heliograph.rpc.conversation import UnreachableError
from heliograph.rpc.methods import RpcError
from heliograph.settings.fields import required
from heliograph.settings.kinds import Text

_ROWS_AT_ONCE: Final = 200
_BYTES_AT_ONCE: Final = 1 << 20
_ROW_BYTES_MAX: Final = 3 << 20  # of what a control socket takes, with room for topics
_ANSWER_S: Final = 60.0


@dataclass(frozen=True)
class NodeFallbacks:
    """The fallback actions of one action."""

    action: str = required(Text("the type and name of an action"), "The action that has them, as `http:my_action`.")
    socket: str = required(Text("a path"), "The control socket of its node.")

    def give(self, rows: Sequence[FallbackRow]) -> dict[int, str]:
        """Give rows to all of them; why one did not take a row, by its number.

        Raises:
            SinkError: The node cannot be asked.
        """
        failures = {
            number: f"its {len(row.payload):,} bytes are too many for a fallback action"
            for number, row in enumerate(rows)
            if len(row.payload) > _ROW_BYTES_MAX
        }
        for numbers in _portions((number for number in range(len(rows)) if number not in failures), rows):
            question = ACTIONS_FALL_BACK(FallbackRows(self.action, [rows[number] for number in numbers]))
            found = Attempts(RetryPolicy()).run(partial(self._ask, question))
            failures |= {numbers[number]: reason for number, reason in found.items()}
        return failures

    def _ask(self, question: Question[FallbackOutcome]) -> dict[int, str]:
        try:
            with RpcClient(Path(self.socket), "heliograph actions") as node:
                return node.ask(question, _ANSWER_S).failures
        except (RpcError, UnreachableError, OSError) as error:
            raise TransientError(f"the fallback actions of {self.action} get nothing: {error}") from error


def _portions(numbers: Iterable[int], rows: Sequence[FallbackRow]) -> Iterator[list[int]]:
    portion: list[int] = []
    size = 0
    for number in numbers:
        if portion and (len(portion) == _ROWS_AT_ONCE or size + len(rows[number].payload) > _BYTES_AT_ONCE):
            yield portion
            portion, size = [], 0
        portion.append(number)
        size += len(rows[number].payload)
    if portion:
        yield portion
