"""Schema validation: drops invalid messages before rules, storage and subscribers get them.

All validations for a message's topic run in the order of the configuration, and a message goes on when all pass. The
first failure whose action is not `ignore` ends it.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from heliograph.broker import hooks
from heliograph.broker.hooks import OK, STOP, Refusal
from heliograph.broker.message import Message
from heliograph.broker.pubsub import Broker
from heliograph.config.message_policies import Validation
from heliograph.message_policies.chain import PolicyChain, Stage
from heliograph.rules.engine.columns import ColumnsOfMessages, NodeFacts
from heliograph.rules.environment import Environment
from heliograph.rules.topic_index import TopicIndex

if TYPE_CHECKING:
    from heliograph.message_policies.checks import Check

ROOT: Final = "schema_validation"

# What a validation does to the turn of its publisher, in deliveries: 2 µs and 5 ns for each byte.
_STAGE_WORK: Final = 40
_BYTES_PER_WORK_LOG2: Final = 3


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a validation that is tried says of a message.

    Attributes:
        is_for_topic: Whether one of its filters matches the topic; otherwise the broker does not ask it.
        refusal: How a message that fails is refused; None where it goes on.
        problems: What each check says on its own, in their order: also those that the strategy does not come to.
    """

    is_for_topic: bool
    problem: str | None
    refusal: Refusal | None
    problems: Sequence[str | None]


class ValidationStage(Stage):
    __slots__ = ("checks", "joined", "problem")

    def __init__(self, settings: Validation, number: int, environment: Environment, columns: ColumnsOfMessages) -> None:
        # The rule language, which a node without validations does not load.
        from heliograph.message_policies.checks import all_pass, any_pass, compile_check

        super().__init__(settings)
        place = (ROOT, "validations", str(number), "checks")
        self.checks = [
            compile_check(check, (*place, str(position)), environment, columns)
            for position, check in enumerate(settings.checks, 1)
        ]
        self.joined = any_pass if settings.strategy == "any_pass" else all_pass
        self.problem = self.joined(self.checks)


class SchemaValidation(PolicyChain[Validation, ValidationStage]):
    """The validations of one node; owned by `ValidationPart`."""

    def __init__(self, broker: Broker, environment: Environment, node: NodeFacts, logger: logging.Logger) -> None:
        super().__init__(broker, "validation", ROOT, "validation", hooks.SCHEMA_VALIDATION_FAILED, logger)
        self._environment = environment
        self._node = node
        self._columns = ColumnsOfMessages(node)

    def _stage(self, settings: Validation, number: int) -> ValidationStage:
        return ValidationStage(settings, number, self._environment, self._columns)

    def try_out(self, settings: Validation, message: Message) -> Judgement:
        """What a validation that is not among these says of a message; called in any thread.

        Nothing is counted, logged or reported, and what its SQL keeps (`kv_store_put`) is forgotten.
        """
        stage = ValidationStage(settings, 1, self._environment.for_trial(), ColumnsOfMessages(self._node))
        problems = [check(message) for check in stage.checks]
        # Each check runs once: SQL that keeps values may say something else the second time.
        problem = stage.joined([_saying(one) for one in problems])(message)
        index: TopicIndex[ValidationStage] = TopicIndex()
        index.add(stage, stage.topics, 1)
        refusal = None if problem is None else self._refusals.get(stage.action)
        return Judgement(bool(index.find(message.topic)), problem, refusal, problems)

    def on_message_publish(self, message: Message) -> object:
        topic = message.topic
        index = self._index
        stages = index.remembered.get(topic)
        if stages is None:
            stages = index.find(topic)
        if not stages:
            return OK
        self._broker.work += len(stages) * (_STAGE_WORK + (len(message.publish.data) >> _BYTES_PER_WORK_LOG2))
        failed = False
        for stage in stages:
            counts = stage.counts
            counts.matched += 1
            problem = stage.problem(message)
            if problem is None:
                counts.succeeded += 1
                continue
            failed = True
            refusal = self._fail(stage, message, problem)
            if refusal is not None:
                self._failed_count += 1
                return STOP, refusal
        if failed:
            self._failed_count += 1
        else:
            self._passed_count += 1
        return OK


def _saying(problem: str | None) -> "Check":
    return lambda message: problem
