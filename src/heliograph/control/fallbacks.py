"""Gives the rows that targets refuse to the fallback actions of their actions; engines ask for it.

The answer comes when all of it is durable: only then does an engine leave its batch behind. An engine that is killed
before that asks again, so a row goes to a fallback action at least once.
"""

import asyncio
import json
from collections.abc import Callable
from functools import partial
from typing import Final

from heliograph.actions.fallback_calls import ACTIONS_FALL_BACK, FallbackOutcome, FallbackRow, FallbackRows
from heliograph.broker.message import make_message
from heliograph.broker.publishing import Outcome, publish
from heliograph.channel.context import ChannelContext
from heliograph.config.actions.fallbacks import Fallback, FallbackReference
from heliograph.config.actions.roots import all_actions, running_actions
from heliograph.config.settings import Config
from heliograph.control.messages import became_of, committed
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.errors import ProtocolError
from heliograph.rpc.methods import Call, Method
from heliograph.rules.engine.actions import PIPELINE_PREFIX, Republish
from heliograph.rules.engine.columns import LiveColumns
from heliograph.rules.engine.counters import RuleCounters
from heliograph.rules.engine.engine import RuleEngine
from heliograph.rules.engine.errors import ActionError

_WORK_AT_ONCE: Final = 256  # deliveries
_REASON_LENGTH_MAX: Final = 500

_Give = Callable[[FallbackRow], int | Outcome]


def methods(config: Callable[[], Config], engine: RuleEngine, context: ChannelContext) -> list[Method]:
    """`actions.fall_back`."""
    return [ACTIONS_FALL_BACK.by(FallbackAnswers(config, engine, context).fall_back)]


class FallbackAnswers:
    """Stores rows for other actions, and publishes messages made of them; owned by the control socket."""

    def __init__(self, config: Callable[[], Config], engine: RuleEngine, context: ChannelContext) -> None:
        self._config = config
        self._engine = engine
        self._context = context
        self._broker = context.broker

    async def fall_back(self, args: FallbackRows, call: Call) -> FallbackOutcome:
        """Give each row to all fallback actions; one that a fallback action did not take is a failure."""
        config = self._config()
        found = {f"{kind}:{name}": action for kind, name, action in all_actions(config.actions)}
        action = found.get(args.action)
        gives = [] if action is None else [self._give(config, args.action, one) for one in action.fallback_actions]
        failures: dict[int, str] = {}
        given: list[tuple[int, int | Outcome]] = []
        self._context.begin_turn()
        before = self._broker.work
        for number, row in enumerate(args.rows):
            if not gives:
                failures[number] = f"{args.action} has no fallback actions"
            elif row.clientid != _rule_of(row):
                failures[number] = f"it came from {row.clientid} as a fallback, and does not fall back again"
            else:
                try:
                    for give in gives:
                        given.append((number, give(row)))
                except (ActionError, ProtocolError, ValueError, RecursionError) as error:
                    failures[number] = str(error)[:_REASON_LENGTH_MAX]
            if self._broker.work > before + _WORK_AT_ONCE:
                await asyncio.sleep(0)
                self._context.begin_turn()
                before = self._broker.work
        for number, outcome in given:
            code = await self._code_of(outcome)
            if code != rc.SUCCESS:
                failures.setdefault(number, f"a fallback action did not take it: {rc.name_of(code)}")
        return FallbackOutcome(failures)

    async def _code_of(self, outcome: int | Outcome) -> int:
        if isinstance(outcome, int):
            return await committed(self._context, outcome, is_joined=False)
        return (await became_of(self._context, outcome))[1]

    def _give(self, config: Config, action_id: str, fallback: Fallback) -> _Give:
        if isinstance(fallback, FallbackReference):
            is_running = fallback.id in running_actions(config.connectors, config.actions)
            return partial(self._store, action_id, fallback.id, is_running)
        message = fallback.message
        return lambda row: self._republish(
            action_id,
            Republish(message, _rule_of(row), RuleCounters(), self._engine, lambda name: False),
            row,
        )

    def _store(self, action_id: str, fallback_id: str, is_running: bool, row: FallbackRow) -> int:
        """Store a row for another action, as its rule would; the ticket."""
        if not is_running:
            raise ActionError(f"the fallback action {fallback_id} is disabled")
        out = self._engine.messages
        topic = f"{PIPELINE_PREFIX}{fallback_id}/{_rule_of(row)}"
        low = out.ids.next_low()
        # The client id says that it is a fallback, which ends the way of the row there.
        message = make_message(out.broker.now_us, low, topic, row.payload, 1, False, b"", action_id, None)
        return self._engine.store(message, True, RuleCounters())

    def _republish(self, action_id: str, action: Republish, row: FallbackRow) -> Outcome:
        """Publish a message of a row; rules do not give it to the same action again."""
        values = json.loads(row.payload)
        if not isinstance(values, dict):
            raise ActionError("the row is no object")
        out = self._engine.messages
        stored = make_message(
            out.broker.now_us, out.ids.next_low(), row.topic, row.payload, 1, False, b"", row.clientid, None
        )
        message, directly = action.made(values, LiveColumns(stored, self._engine))
        message.made_by = (*message.made_by, action_id)
        return publish(self._broker, message, may_refuse=True, directly=directly)


def _rule_of(row: FallbackRow) -> str:
    return row.topic.rpartition("/")[2]
