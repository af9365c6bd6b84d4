"""What one client may publish and subscribe to: asks `client.authorize`, and remembers the answers for a while.

An answer may come later. What the client itself asked for then waits (`Authorizer.awaited`), and nothing of the client
is handled meanwhile. What is asked for each message that it receives cannot wait: that message is refused, and the
answer counts for the next ones.
"""

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from heliograph.broker import hooks
from heliograph.broker.client import ClientInfo
from heliograph.broker.hooks import PendingChain
from heliograph.broker.message import Message
from heliograph.broker.pending import Pending
from heliograph.broker.pubsub import Broker
from heliograph.channel.options import ChannelOptions
from heliograph.mqtt.topic import without_delay
from heliograph.session.access_check import AccessCheck

PUBLISH: Final = "publish"
SUBSCRIBE: Final = "subscribe"
ALLOW: Final = "allow"
DENY: Final = "deny"

# Questions about messages for one client that may wait for their answers at a time; it is asked no more until then.
_ASKED_MAX: Final = 64


class PendingDecision(Pending[bool]):
    """Whether a client may do something, where a callback of `client.authorize` has yet to say so.

    Args:
        client: Which client.
        due_us: When it counts as denied.
        authorizer: Remembers the decision; None for one that is not remembered.

    Attributes:
        is_waited_for: Whether something waits for it and checks its deadline.
        has_failed: Whether a callback raised or did not answer in time: denied without a decision.
    """

    def __init__(
        self,
        broker: Broker,
        chain: PendingChain,
        client: ClientInfo,
        action: str,
        topic: str,
        due_us: i64,
        authorizer: "Authorizer | None",
    ) -> None:
        super().__init__()
        self.due_us = due_us
        self.action = action
        self.topic = topic
        self.is_waited_for = False
        self.has_failed = False
        self._broker = broker
        self._chain = chain
        self._client = client
        self._authorizer = authorizer
        chain.then(self._on_answer)

    def then(self, callback: Callable[[bool], None]) -> None:
        """Call `callback` with the answer, in this call if it is there already."""
        self.is_waited_for = True
        super().then(callback)

    def expire(self) -> None:
        """The deadline has passed: go on without the callback that has not answered, which denies it."""
        self._chain.expire()

    def cancel(self) -> None:
        """Stop waiting."""
        super().cancel()
        self._chain.cancel()
        if self._authorizer is not None:
            self._authorizer.forget(self)

    def _on_answer(self, outcome: tuple[str, object]) -> None:
        self.has_failed = outcome[0] == hooks.FAILED
        allowed = concluded(self._broker, self._client, self.action, self.topic, outcome[0], outcome[1])
        if self._authorizer is not None:
            self._authorizer.remember(self, allowed)
        self.resolve(allowed)


class Authorizer(AccessCheck):
    """One client's rights by the last answers; made with its CONNACK, kept by its session until the next one.

    Attributes:
        allowed_until_us: Until when the last thing that it was allowed may be taken for allowed without asking again.
        awaited: The answer to the last question, where that is not there yet; the client is denied until then.
        has_failed: Whether a callback raised at the last question: denied without a decision.

    Topics are those that the client knows, without its mountpoint.
    """

    def __init__(self, broker: Broker, client: ClientInfo, options: ChannelOptions) -> None:
        super().__init__()
        self._broker = broker
        self._client = client
        self._options = options
        self.allowed_until_us: i64 = 0
        self.awaited: PendingDecision | None = None
        self.has_failed = False
        # Until when a decision holds; a negative time is a denial's. Made with the first decision.
        self._publishing: dict[str, int] | None = None
        self._subscribing: dict[str, int] | None = None
        self._asked: dict[tuple[str, str], PendingDecision] | None = None  # by action and topic

    def set_options(self, options: ChannelOptions) -> None:
        """Remember answers as other options say: those that are remembered may be too many, or for too long."""
        self._options = options
        self.allowed_until_us = 0
        self._publishing = None
        self._subscribing = None

    def may_publish(self, topic: str) -> bool:
        """Whether the client may publish to a topic; look at `awaited` if not."""
        return self._decide(self._cache(PUBLISH), PUBLISH, topic, False)

    def may_subscribe(self, topic_filter: str) -> bool:
        """Whether the client may subscribe to a filter; look at `awaited` if not."""
        return self._decide(self._cache(SUBSCRIBE), SUBSCRIBE, topic_filter, False)

    def tell_denied(self, topic: str) -> None:
        """Run the callbacks for a publish that is denied without a question."""
        self._broker.hooks.run(hooks.CLIENT_CHECK_AUTHZ_COMPLETE, (self._client, PUBLISH, topic, DENY))

    def may_receive(self, topic: str) -> bool:
        """Whether it may have a message that one of its wildcards matched: if it may subscribe to just its topic."""
        allowed = self._decide(self._cache(SUBSCRIBE), SUBSCRIBE, self._without_mountpoint(topic), True)
        if self.awaited is not None:
            self._expire(self.awaited)
        return allowed

    def may_publish_now(self, topic: str) -> Pending[bool]:
        """Whether it may publish its will to a (mounted) topic; asked again."""
        topic = self._without_mountpoint(topic)
        outcome = self._ask(self._client, PUBLISH, topic)
        if isinstance(outcome, PendingChain):
            due_us = self._options.due_us(self._broker.uptime_us)
            return PendingDecision(self._broker, outcome, self._client, PUBLISH, topic, due_us, None)
        decided: Pending[bool] = Pending()
        decided.resolve(outcome)
        return decided

    def may_come_from(self, message: Message) -> bool:
        """Whether the publisher of a retained message may still publish it; its address is not known any more."""
        is_brokers_own = not message.clientid  # no client is without an id
        broker = self._broker
        if is_brokers_own or not broker.checks_retained_source or not broker.hooks.client_authorize.callbacks:
            return True
        publisher = ClientInfo(message.clientid, message.username, "")
        outcome = self._ask(publisher, PUBLISH, self._without_mountpoint(message.topic))
        if isinstance(outcome, PendingChain):  # this message cannot wait
            outcome.cancel()
            return False
        return outcome

    def remember(self, decision: PendingDecision, allowed: bool) -> None:
        """An answer that had to be waited for is there."""
        self.forget(decision)
        self._keep(self._cache(decision.action), decision.topic, allowed)

    def forget(self, decision: PendingDecision) -> None:
        """Nothing waits for an answer any more."""
        if self._asked is not None:
            self._asked.pop((decision.action, decision.topic), None)
        if self.awaited is decision:
            self.awaited = None  # they would refer to each other

    def _cache(self, action: str) -> dict[str, int]:
        cache = self._publishing if action == PUBLISH else self._subscribing
        if cache is None:
            cache = {}
            if action == PUBLISH:
                self._publishing = cache
            else:
                self._subscribing = cache
        return cache

    def _without_mountpoint(self, topic: str) -> str:
        return topic[len(self._client.mountpoint) :]

    def _decide(self, cache: dict[str, int], action: str, topic: str, is_for_message: bool) -> bool:
        self.awaited = None
        self.has_failed = False
        if self._client.is_superuser:
            return True
        self.allowed_until_us = 0
        now: i64 = self._broker.uptime_us
        known: i64 = cache.get(topic, 0)
        if known > now:
            self.allowed_until_us = known
            return True
        if known < -now:
            return False
        asked = self._asked
        if asked:
            self.awaited = asked.get((action, topic))
            if self.awaited is not None:
                return False
            if is_for_message and len(asked) >= _ASKED_MAX and not self._expire_some(asked):
                return False
        outcome = self._ask(self._client, action, topic)
        if isinstance(outcome, PendingChain):
            self.awaited = self._await(outcome, action, topic)
            return False
        return self._keep(cache, topic, outcome)

    def _expire(self, decision: PendingDecision) -> None:
        """Give up an answer that is late, if nothing else checks its deadline."""
        if not decision.is_waited_for and decision.is_late(self._broker.uptime_us):
            decision.expire()

    def _expire_some(self, asked: dict[tuple[str, str], PendingDecision]) -> bool:
        """Do without all answers that have not come in time; whether one more may be asked for."""
        if asked[next(iter(asked))].is_late(self._broker.uptime_us):  # the first one that was asked for
            for decision in list(asked.values()):
                self._expire(decision)
        return len(asked) < _ASKED_MAX

    def _await(self, chain: PendingChain, action: str, topic: str) -> PendingDecision:
        due_us = self._options.due_us(self._broker.uptime_us)
        decision = PendingDecision(self._broker, chain, self._client, action, topic, due_us, self)
        if self._asked is None:
            self._asked = {}
        self._asked[(action, topic)] = decision
        return decision

    def _keep(self, cache: dict[str, int], topic: str, allowed: bool) -> bool:
        if self._options.authz_cache_size > 0:
            if len(cache) >= self._options.authz_cache_size and topic not in cache:
                del cache[next(iter(cache))]
            until: i64 = self._broker.uptime_us + self._options.authz_cache_ttl_us
            cache[topic] = until if allowed else -until
            self.allowed_until_us = until if allowed else 0
        return allowed

    def _ask(self, client: ClientInfo, action: str, topic: str) -> bool | PendingChain:
        point = self._broker.hooks.client_authorize
        if not point.callbacks or client.is_superuser:
            return True
        if action == PUBLISH:
            topic = without_delay(topic)  # `$delayed/0/secret` is a way to `secret`
        verdict, decision = point.run((client, action, topic), ALLOW)
        self.has_failed = verdict == hooks.FAILED
        if isinstance(decision, PendingChain):
            return decision
        return concluded(self._broker, client, action, topic, verdict, decision)


def concluded(broker: Broker, client: ClientInfo, action: str, topic: str, verdict: str, decision: object) -> bool:
    """The decision of the callbacks of `client.authorize`; runs `client.check_authz_complete`."""
    allowed = decision == ALLOW and verdict != hooks.FAILED
    if action == PUBLISH:
        topic = without_delay(topic)
    broker.hooks.run(hooks.CLIENT_CHECK_AUTHZ_COMPLETE, (client, action, topic, ALLOW if allowed else DENY))
    return allowed
