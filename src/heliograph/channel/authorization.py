"""What one client may publish and subscribe to: asks `client.authorize`, and remembers the answers for a while."""

from typing import Final

from mypy_extensions import i64

from heliograph.broker import hooks
from heliograph.broker.client import ClientInfo
from heliograph.broker.message import Message
from heliograph.broker.pubsub import Broker
from heliograph.channel.options import ChannelOptions
from heliograph.mqtt.topic import without_delay
from heliograph.session.access_check import AccessCheck

PUBLISH: Final = "publish"
SUBSCRIBE: Final = "subscribe"
ALLOW: Final = "allow"
DENY: Final = "deny"


class Authorizer(AccessCheck):
    """One client's rights as they were last told; made with its CONNACK, kept by its session until the next one.

    Attributes:
        allowed_until_us: Until when the last thing that it was allowed may be taken for allowed without asking again.

    Topics are those that the client knows, without its mountpoint.
    """

    def __init__(self, broker: Broker, client: ClientInfo, options: ChannelOptions) -> None:
        super().__init__()
        self._broker = broker
        self._client = client
        self._cache_size: i64 = options.authz_cache_size
        self._ttl_us: i64 = options.authz_cache_ttl_us
        self.allowed_until_us: i64 = 0
        # Until when a decision holds; a negative time is a denial's. Made when somebody decides.
        self._publishing: dict[str, int] | None = None
        self._subscribing: dict[str, int] | None = None

    def may_publish(self, topic: str) -> bool:
        """Whether the client may publish to a topic."""
        cache = self._publishing
        if cache is None:
            cache = {}
            self._publishing = cache
        return self._decide(cache, PUBLISH, topic)

    def may_subscribe(self, topic_filter: str) -> bool:
        """Whether the client may subscribe to a filter."""
        cache = self._subscribing
        if cache is None:
            cache = {}
            self._subscribing = cache
        return self._decide(cache, SUBSCRIBE, topic_filter)

    def tell_denied(self, topic: str) -> None:
        """Tell those who want to know that it may not publish to a topic, which nobody was asked about."""
        self._broker.hooks.run(hooks.CLIENT_CHECK_AUTHZ_COMPLETE, (self._client, PUBLISH, topic, DENY))

    def may_receive(self, topic: str) -> bool:
        """Whether it may have a message that one of its wildcards matched: if it may subscribe to just its topic."""
        return self.may_subscribe(self._without_mountpoint(topic))

    def may_publish_now(self, topic: str) -> bool:
        """Whether it may publish its will to a (mounted) topic; asked anew."""
        return self._ask(self._client, PUBLISH, self._without_mountpoint(topic))

    def may_come_from(self, message: Message) -> bool:
        """Whether whoever published a retained message may still publish it; its address is not known any more."""
        is_brokers_own = not message.clientid  # no client is without an id
        broker = self._broker
        if is_brokers_own or not broker.checks_retained_source or not broker.hooks.client_authorize.callbacks:
            return True
        publisher = ClientInfo(message.clientid, message.username, "")
        return self._ask(publisher, PUBLISH, self._without_mountpoint(message.topic))

    def _without_mountpoint(self, topic: str) -> str:
        return topic[len(self._client.mountpoint) :]

    def _decide(self, cache: dict[str, int], action: str, topic: str) -> bool:
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
        allowed = self._ask(self._client, action, topic)
        if self._cache_size > 0:
            if len(cache) >= self._cache_size and topic not in cache:
                del cache[next(iter(cache))]
            until: i64 = now + self._ttl_us
            cache[topic] = until if allowed else -until
            self.allowed_until_us = until if allowed else 0
        return allowed

    def _ask(self, client: ClientInfo, action: str, topic: str) -> bool:
        point = self._broker.hooks.client_authorize
        if not point.callbacks or client.is_superuser:
            return True
        if action == PUBLISH:
            topic = without_delay(topic)  # `$delayed/0/secret` is a way to `secret`
        verdict, decision = point.run((client, action, topic), ALLOW)
        allowed = decision == ALLOW and verdict != hooks.FAILED
        arguments = (client, action, topic, ALLOW if allowed else DENY)
        self._broker.hooks.run(hooks.CLIENT_CHECK_AUTHZ_COMPLETE, arguments)
        return allowed
