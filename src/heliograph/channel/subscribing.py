"""What a client subscribes to: SUBSCRIBE, UNSUBSCRIBE, and subscriptions made on its behalf.

Each filter is decided and carried out at once; the retained messages that new subscriptions match follow as the client
takes them (`retained`).
"""

from heliograph.broker import hooks
from heliograph.broker.client import ClientInfo
from heliograph.broker.subscription import Subscription
from heliograph.channel.authorization import Authorizer
from heliograph.channel.context import ChannelContext
from heliograph.channel.options import ChannelOptions
from heliograph.channel.retained import RetainedDelivery
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.properties import Properties
from heliograph.mqtt.strictness import strict_fault
from heliograph.mqtt.topic import EXCLUSIVE_PREFIX, bare_filter, has_wildcard, split_share, subscription_fault
from heliograph.session.session import Session


class Subscribing:
    """The subscribing half of one client's conversation; made with its first SUBSCRIBE, owned by its channel.

    Attributes:
        fault: Why the last SUBSCRIBE's first refused filter was refused, for the Reason String.
    """

    def __init__(
        self,
        context: ChannelContext,
        options: ChannelOptions,
        session: Session,
        client: ClientInfo,
        authorizer: Authorizer,
    ) -> None:
        self._context = context
        self._broker = context.broker
        self._options = options
        self._session = session
        self._client = client
        self._authorizer = authorizer
        self._retained: RetainedDelivery | None = None  # what new subscriptions have yet to get
        self.fault = ""

    def authorize(self, entries: list[p.SubscribeEntry]) -> None:
        """Refuse what the client may not subscribe to, by the filters that it named, without a group before them.

        Whatever is subscribed to on its behalf is not asked about.
        """
        if not self._broker.hooks.client_authorize.callbacks:
            return
        for entry in entries:
            fault = subscription_fault(entry.topic_filter, self._options.max_topic_levels)
            if fault is None and not self._authorizer.may_subscribe(bare_filter(entry.topic_filter)):
                self._broker.counters.subscriptions_not_authorized += 1
                entry.code = rc.NOT_AUTHORIZED

    def subscribe(self, entries: list[p.SubscribeEntry], properties: Properties) -> list[int]:
        """Subscribe to filters: a reason code for each, in order [MQTT-3.8.4-6] [MQTT-3.9.3-1]."""
        self.fault = ""
        broker = self._broker
        if broker.hooks.point(hooks.CLIENT_SUBSCRIBE).callbacks:
            entries = self._hooked(entries, properties)
        subscription_id = properties.subscription_ids[0] if properties.subscription_ids else 0
        codes: list[int] = []
        for entry in entries:
            code = self._refused(entry)
            if code == rc.SUCCESS:
                code = self._subscribe_one(entry, subscription_id)
                broker.hooks.run(hooks.SESSION_SUBSCRIBED, (self._client.clientid, entry.topic_filter, code))
            codes.append(code)
        return codes

    def unsubscribe(self, topic_filters: list[str], properties: Properties) -> list[int]:
        """Drop filters: a reason code for each, in order [MQTT-3.11.3-1]."""
        broker, session = self._broker, self._session
        if broker.hooks.point(hooks.CLIENT_UNSUBSCRIBE).callbacks:
            _, outcome = broker.hooks.run(hooks.CLIENT_UNSUBSCRIBE, (self._client, properties), list(topic_filters))
            if isinstance(outcome, list):
                others = [topic_filter for topic_filter in outcome if isinstance(topic_filter, str)]
                if len(others) == len(topic_filters):  # there is a reason code for each [MQTT-3.11.3-1]
                    topic_filters = others
        codes: list[int] = []
        for topic_filter in topic_filters:
            if session.unsubscribe(topic_filter) is None:
                fault = subscription_fault(topic_filter, self._options.max_topic_levels)
                codes.append(rc.NO_SUBSCRIPTION_EXISTED if fault is None else rc.TOPIC_FILTER_INVALID)
            else:
                codes.append(rc.SUCCESS)
                broker.hooks.run(hooks.SESSION_UNSUBSCRIBED, (self._client.clientid, topic_filter))
        return codes

    def deliver_retained(self) -> bool:
        """Deliver retained messages as far as client and turn allow; whether another turn is needed to go on."""
        retained = self._retained
        if retained is None:
            return False
        if retained.deliver():
            return True
        if retained.is_done():
            self._retained = None
        return False

    def _hooked(self, entries: list[p.SubscribeEntry], properties: Properties) -> list[p.SubscribeEntry]:
        _, outcome = self._broker.hooks.run(hooks.CLIENT_SUBSCRIBE, (self._client, properties), list(entries))
        if not isinstance(outcome, list):
            return entries
        changed = [entry for entry in outcome if isinstance(entry, p.SubscribeEntry)]
        if len(changed) != len(entries):
            return entries
        for entry, before in zip(changed, entries, strict=True):
            if entry.code == rc.SUCCESS:
                entry.code = before.code  # another filter makes nobody allowed who was not
        return changed

    def _refused(self, entry: p.SubscribeEntry) -> int:
        code = entry.code
        if code not in rc.SUBSCRIBE_FAILURES and code != rc.SUCCESS:
            code = rc.UNSPECIFIED_ERROR
        if code == rc.SUCCESS:
            code = self._not_allowed(entry.topic_filter)
        if code != rc.SUCCESS and not self.fault:
            self.fault = f"{entry.topic_filter[:200]!r} is refused: {rc.name_of(code)}"
        return code

    def _not_allowed(self, topic_filter: str) -> int:
        """What limits and the specification have against a filter."""
        options, held = self._options, self._session.subscriptions
        fault = subscription_fault(topic_filter, options.max_topic_levels)
        if fault is None and options.strict_mode:
            fault = strict_fault(topic_filter)
        if fault is not None:
            self.fault = self.fault or fault
            return rc.TOPIC_FILTER_INVALID
        group, _ = split_share(topic_filter)
        if group and not options.shared_subscription:
            return rc.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED
        if has_wildcard(topic_filter) and not options.wildcard_subscription:
            return rc.WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED
        if topic_filter.startswith(EXCLUSIVE_PREFIX):
            if not options.exclusive_subscription or has_wildcard(topic_filter):
                return rc.TOPIC_FILTER_INVALID
            holder = self._broker.exclusive.get(self._mounted(bare_filter(topic_filter)))
            if holder is not None and holder != self._client.clientid:
                return rc.QUOTA_EXCEEDED
        if topic_filter not in held and len(held) >= options.max_subscriptions:
            return rc.QUOTA_EXCEEDED
        return rc.SUCCESS

    def _subscribe_one(self, entry: p.SubscribeEntry, subscription_id: int) -> int:
        qos: int = min(entry.qos, self._options.max_qos_allowed)  # [MQTT-3.8.4-7]
        subscription = self._session.subscriptions.get(entry.topic_filter)
        no_local = entry.no_local or (self._session.options.ignore_loop_deliver and self._client.version != p.V5)
        if subscription is not None:
            subscription.set_options(qos, no_local, entry.retain_as_published, entry.retain_handling, subscription_id)
        else:
            subscription = self._make(entry, qos, no_local, subscription_id)
            self._session.subscribe(entry.topic_filter, subscription)
        self._find_retained(subscription, entry.retain_handling)
        return qos

    def _make(self, entry: p.SubscribeEntry, qos: int, no_local: bool, subscription_id: int) -> Subscription:
        name = entry.topic_filter
        group, _ = split_share(name)
        topic_filter = self._mounted(bare_filter(name))
        if name.startswith(EXCLUSIVE_PREFIX):
            self._broker.exclusive[topic_filter] = self._client.clientid
        return Subscription(
            self._session,
            topic_filter,
            qos,
            no_local,
            entry.retain_as_published,
            entry.retain_handling,
            subscription_id,
            group,
        )

    def _mounted(self, topic_filter: str) -> str:
        return self._client.mountpoint + topic_filter if self._client.mountpoint else topic_filter

    def _find_retained(self, subscription: Subscription, retain_handling: int) -> None:
        if self._broker.retained is None or subscription.group:
            return  # a shared subscription gets none (section 4.8.2)
        if retain_handling == 0 or subscription.is_new:  # [MQTT-3.3.1-9] [MQTT-3.3.1-10] [MQTT-3.3.1-11]
            subscription.is_new = False
            if retain_handling != 2:
                if self._retained is None:
                    self._retained = RetainedDelivery(self._context, self._session)
                self._retained.add(subscription)
