"""Topic rewriting and automatic subscriptions as parts of a node."""

import logging
from collections.abc import Callable, Sequence
from typing import Final

from heliograph.broker import hooks
from heliograph.broker.hook_order import AUTO_SUBSCRIBE, REWRITE
from heliograph.broker.pubsub import Broker
from heliograph.config.settings import Config
from heliograph.observe.metric import Sample, counter, gauge, plain
from heliograph.parts import Change, Hook, HookedPart
from heliograph.policies.auto_subscribe import AutomaticSubscriptions, SubscribingChannel
from heliograph.policies.rewrite import TopicRewrite

_log: Final = logging.getLogger(__name__)


class RewritePart(HookedPart):
    name = "rewrite"
    metrics = (
        counter("rewrite.rewritten", "Topics and filters that were rewritten."),
        counter("rewrite.invalid", "Of these, those that came to something invalid and were left as they were."),
        counter("rewrite.timeouts", "Regular expressions that took too long."),
        gauge("rewrite.known_topics", "Topics of messages whose rewriting is remembered."),
    )
    needs = ("kernel", "commits")
    roots = ("rewrite",)

    def __init__(self, config: Config, broker: Broker) -> None:
        super().__init__(broker.hooks)
        self._settings = config.rewrite
        self._rewrite = TopicRewrite(broker, config.rewrite, _log)

    async def start(self) -> None:
        self.hook_in()

    async def check(self, new: Config) -> Change | None:
        """Other rules, for what comes from then on."""
        if new.rewrite == self._settings:
            return None
        use = self._rewrite.prepare(new.rewrite)
        return Change(lambda: self._use(new, use))

    def samples(self) -> list[Sample]:
        return plain(self._rewrite.statistics())

    def wanted(self) -> Sequence[Hook]:
        rewrite, found = self._rewrite, []
        if rewrite.rewrites_messages:
            callback = rewrite.on_message_publish
            found.append(Hook(hooks.MESSAGE_PUBLISH, callback, REWRITE, rewrite.wants, rewrite.rewrite_only))
        if rewrite.rewrites_filters:
            found.append(Hook(hooks.CLIENT_SUBSCRIBE, rewrite.on_client_subscribe, REWRITE))
            found.append(Hook(hooks.CLIENT_UNSUBSCRIBE, rewrite.on_client_unsubscribe, REWRITE))
        return found

    def _use(self, new: Config, use: Callable[[], None]) -> None:
        self._settings = new.rewrite
        use()
        self.hook_in()


class AutoSubscribePart(HookedPart):
    name = "auto_subscribe"
    metrics = (
        counter("auto_subscribe.subscribed", "Automatic subscriptions."),
        counter("auto_subscribe.skipped", "Automatic subscriptions that were not possible."),
    )
    needs = ("kernel", "commits")
    roots = ("auto_subscribe",)

    def __init__(
        self, config: Config, broker: Broker, find: Callable[[str], SubscribingChannel | None], clock: Callable[[], int]
    ) -> None:
        super().__init__(broker.hooks)
        self._settings = config.auto_subscribe
        self._subscriptions = AutomaticSubscriptions(
            config.auto_subscribe.topics, find, lambda: broker.router.levels_max, _log, clock
        )

    async def start(self) -> None:
        self.hook_in()

    async def check(self, new: Config) -> Change | None:
        """Other filters, for clients that connect from then on."""
        if new.auto_subscribe == self._settings:
            return None
        use = self._subscriptions.prepare(new.auto_subscribe.topics)
        return Change(lambda: self._use(new, use))

    def samples(self) -> list[Sample]:
        return plain(self._subscriptions.statistics())

    def wanted(self) -> Sequence[Hook]:
        if self._subscriptions.is_empty:
            return ()
        return (Hook(hooks.CLIENT_CONNECTED, self._subscriptions.on_client_connected, AUTO_SUBSCRIBE),)

    def _use(self, new: Config, use: Callable[[], None]) -> None:
        self._settings = new.auto_subscribe
        use()
        self.hook_in()
