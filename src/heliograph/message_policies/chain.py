"""What validations and transformations have in common: their order, the topics that they are for, their failures.

A chain is replaced as a whole: messages see the stages before or those after, never some of each.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Generic, TypeVar

from heliograph.broker.hooks import Callback, Refusal
from heliograph.broker.message import Message
from heliograph.broker.pubsub import Broker
from heliograph.config.message_policies import MessagePolicy
from heliograph.mqtt import reason_codes as rc
from heliograph.observe.bounded_log import BoundedLog
from heliograph.observe.metric import Sample, labelled, plain
from heliograph.rules.topic_index import TopicIndex

_PROBLEM_LENGTH_MAX: Final = 300

_LEVELS: Final = {
    "error": logging.ERROR,
    "warning": logging.WARNING,
    "notice": logging.INFO,
    "info": logging.INFO,
    "debug": logging.DEBUG,
}


class Counts:
    """What became of the messages that a stage was for; the next stage of the same name goes on with them."""

    __slots__ = ("failed", "matched", "succeeded")

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.matched = 0
        self.succeeded = 0
        self.failed = 0

    def numbers(self) -> dict[str, int]:
        return {"matched": self.matched, "succeeded": self.succeeded, "failed": self.failed}


class Stage:
    """One validation or transformation; owned by its chain."""

    __slots__ = ("action", "counts", "level", "log", "name", "topics")

    def __init__(self, settings: MessagePolicy) -> None:
        self.name = settings.name
        self.topics = settings.topics
        self.action = settings.failure_action
        self.level = _LEVELS.get(settings.log_failure.level)  # None for no entry
        self.counts = Counts()
        self.log: BoundedLog | None = None  # set by the chain

    @property
    def is_refusing(self) -> bool:
        return self.action != "ignore"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


SettingsT = TypeVar("SettingsT", bound=MessagePolicy)
StageT = TypeVar("StageT", bound=Stage)


class PolicyChain(Generic[SettingsT, StageT]):
    """The stages of one kind on a node; from `start` to `stop` a callback of `message.publish` while there are any.

    Args:
        result: The metrics of all messages: `messages.RESULT_succeeded` and `messages.RESULT_failed`.
    """

    def __init__(
        self, broker: Broker, title: str, root: str, result: str, failed_point: str, logger: logging.Logger
    ) -> None:
        self._broker = broker
        self._title = title
        self._root = root
        self._result = result
        self._failed_point = failed_point
        self._logger = logger
        self._stages: tuple[StageT, ...] = ()
        self._index: TopicIndex[StageT] = TopicIndex()
        self._priority: int | None = None
        self._is_hooked = False
        self._passed_count = 0  # messages that no stage failed
        self._failed_count = 0
        reason = f"{root}_failed"
        self._refusals = {
            "drop": Refusal(reason, rc.IMPLEMENTATION_SPECIFIC_ERROR, False),
            "disconnect": Refusal(reason, rc.IMPLEMENTATION_SPECIFIC_ERROR, True),
        }

    def start(self, priority: int) -> None:
        self._priority = priority
        self._hook_in()

    def stop(self) -> None:
        self._priority = None
        self._hook_in()

    def replace(self, settings: Sequence[SettingsT]) -> None:
        """Replace the stages, from the next message on; those that are not enabled are left out."""
        self.prepare(settings)()

    def prepare(self, settings: Sequence[SettingsT]) -> Callable[[], None]:
        """Make other stages ready; what is returned puts them in the place of those before."""
        return partial(
            self._install, [self._stage(one, number) for number, one in enumerate(settings, 1) if one.enable]
        )

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(stage.name for stage in self._stages)

    def wants(self, topic: str) -> bool:
        return bool(self._index.find(topic))

    def on_message_publish(self, message: Message) -> object:
        raise NotImplementedError

    def rewrite_only(self, message: Message) -> Message | None:
        """What a message that was published before became; None if it was refused. Nothing is counted or reported."""
        return message

    def samples(self) -> list[Sample]:
        numbers = {"succeeded": self._passed_count, "failed": self._failed_count}
        found = plain({f"messages.{self._result}_{name}": count for name, count in numbers.items()})
        for stage in self._stages:
            found += labelled(self._root, stage.counts.numbers(), stage.name)
        return found

    def counts_of(self, name: str) -> dict[str, int]:
        return next((stage.counts for stage in self._stages if stage.name == name), Counts()).numbers()

    def reset(self, name: str) -> None:
        for stage in self._stages:
            if stage.name == name:
                stage.counts.reset()

    def _stage(self, settings: SettingsT, number: int) -> StageT:
        raise NotImplementedError

    def _install(self, stages: Sequence[StageT]) -> None:
        before = {stage.name: stage.counts for stage in self._stages}
        index: TopicIndex[StageT] = TopicIndex()
        for position, stage in enumerate(stages):
            index.add(stage, stage.topics, position)
            stage.counts = before.get(stage.name, stage.counts)
            stage.log = BoundedLog(self._logger, lambda: self._broker.uptime_us)
        self._stages, self._index = tuple(stages), index
        self._hook_in()

    def _hook_in(self) -> None:
        """Be a callback while there are stages, and look at topics again."""
        point = self._broker.hooks.message_publish
        callback: Callback = self.on_message_publish
        wanted = self._priority is not None and bool(self._stages)
        if wanted and not self._is_hooked:
            assert self._priority is not None
            point.add(callback, self._priority, self.wants, self.rewrite_only)
        elif self._is_hooked and not wanted:
            point.remove(callback)
        elif wanted:
            point.renew()
        self._is_hooked = wanted

    def _fail(self, stage: StageT, message: Message, problem: str) -> Refusal | None:
        """Count and report a failure: how the message is refused, or None where it goes on."""
        stage.counts.failed += 1
        if stage.level is not None and stage.log is not None:
            stage.log.write(
                stage.level,
                "%s %s failed (%s) for message %s of client %.100r to %.100r: %s",
                self._title,
                stage.name,
                stage.action,
                message.guid.hex().upper(),
                message.clientid,
                message.topic,
                bounded(problem),
            )
        self._broker.hooks.run(self._failed_point, (message, stage.name))
        return self._refusals.get(stage.action)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self.names)})"


def bounded(text: str) -> str:
    line = " ".join(text[: 4 * _PROBLEM_LENGTH_MAX].split())
    return line if len(line) <= _PROBLEM_LENGTH_MAX else f"{line[:_PROBLEM_LENGTH_MAX]}..."
