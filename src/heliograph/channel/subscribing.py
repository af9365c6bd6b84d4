"""What a client subscribes to: SUBSCRIBE, UNSUBSCRIBE, and subscriptions made on its behalf.

Each filter is decided and carried out at once; how those of a packet share turns is in `filter_work`. The retained
messages that new subscriptions match follow as the client takes them (`retained`).
"""

from mypy_extensions import i64

from heliograph.broker import hooks
from heliograph.broker.subscription import Subscription
from heliograph.channel.context import ChannelContext
from heliograph.channel.conversation import ConnectedClient
from heliograph.channel.options import ChannelOptions
from heliograph.channel.reader import CLOSED, Reader
from heliograph.channel.retained import RetainedDelivery
from heliograph.channel.rights import RightsCheck
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.properties import Properties
from heliograph.mqtt.strictness import strict_fault
from heliograph.mqtt.topic import EXCLUSIVE_PREFIX, bare_filter, has_wildcard, split_share, subscription_fault


class Subscribing:
    """The subscribing half of one client's conversation; made with its first SUBSCRIBE, owned by its channel.

    Attributes:
        fault: Why the last SUBSCRIBE's first refused filter was refused, for the Reason String.
    """

    def __init__(
        self, context: ChannelContext, options: ChannelOptions, reader: Reader, connected: ConnectedClient
    ) -> None:
        self._context = context
        self.broker = context.broker
        self.options = options
        self.connected = connected
        self._reader = reader
        self._session = connected.session
        self._client = connected.client
        self._retained: RetainedDelivery | None = None  # what new subscriptions have yet to get
        self._leaves_group = False  # what waits for its members has yet to be passed on
        self.fault = ""

    @property
    def has_ended(self) -> bool:
        """Whether the conversation has ended: its session is not the client's any more."""
        return self._reader.state == CLOSED

    def subscribe_one(self, entry: p.SubscribeEntry, properties: Properties) -> int:
        code = self._refused(entry)
        if code == rc.SUCCESS:
            ids = properties.subscription_ids
            code = self._subscribe(entry, ids[0] if ids else 0)
            arguments = (self._client.clientid, entry.topic_filter, code, properties)
            self.broker.hooks.run(hooks.SESSION_SUBSCRIBED, arguments)
        return code

    def unsubscribe_one(self, topic_filter: str, properties: Properties) -> int:
        """Drop one filter of a packet with these properties: its reason code."""
        subscription = self._session.unsubscribe(topic_filter)
        if subscription is None:
            fault = subscription_fault(topic_filter, self.options.max_topic_levels)
            # [MQTT-3.11.3-2] 3.1.1 [MQTT-3.10.4-5]
            if fault is None:
                return rc.NO_SUBSCRIPTION_EXISTED
            self.broker.counters.unsubscribe_error += 1
            return rc.TOPIC_FILTER_INVALID
        self._leaves_group = self._leaves_group or subscription.group != ""
        arguments = (self._client.clientid, topic_filter, subscription.qos, properties)
        self.broker.hooks.run(hooks.SESSION_UNSUBSCRIBED, arguments)
        return rc.SUCCESS

    def pass_on(self) -> None:
        """Let other members have what waits for groups that were left since the last call."""
        if self._leaves_group:
            self._leaves_group = False
            self._session.pass_on()

    def deliver_retained(self) -> None:
        """Deliver retained messages as far as client and turn allow; what is left follows in other turns."""
        retained = self._retained
        if retained is None or self._reader.waits_for_turn:
            return
        if retained.deliver():
            self._reader.wait_for_turn()
        elif retained.is_done():
            self._retained = None

    def hooked(self, entries: list[p.SubscribeEntry], properties: Properties) -> list[p.SubscribeEntry]:
        """What callbacks make of the filters of a SUBSCRIBE before each is decided."""
        point = self.broker.hooks.client_subscribe
        if not point.callbacks:
            return entries
        _, outcome = point.run((self._client, properties), list(entries))
        if not isinstance(outcome, list):
            return entries
        changed = [entry for entry in outcome if isinstance(entry, p.SubscribeEntry)]
        if len(changed) != len(entries):
            return entries
        for entry, before in zip(changed, entries, strict=True):
            if entry.code == rc.SUCCESS:
                entry.code = before.code  # another filter does not allow what was denied
        return changed

    def ask(self, entry: p.SubscribeEntry, number: int, rights: RightsCheck) -> None:
        """Ask whether the client may subscribe to a filter, by the name that it gave, without a group before it."""
        if subscription_fault(entry.topic_filter, self.options.max_topic_levels) is None:
            rights.ask(number, bare_filter(entry.topic_filter), entry.qos, self.broker.uptime_us)

    def deny(self, entry: p.SubscribeEntry) -> None:
        self.broker.counters.subscriptions_not_authorized += 1
        entry.code = rc.NOT_AUTHORIZED
        self._note_refused(entry.topic_filter, "not_authorized")

    def unhooked(self, topic_filters: list[str], properties: Properties) -> list[str]:
        """What callbacks make of the filters of an UNSUBSCRIBE."""
        point = self.broker.hooks.client_unsubscribe
        if not point.callbacks:
            return topic_filters
        _, outcome = point.run((self._client, properties), list(topic_filters))
        if not isinstance(outcome, list):
            return topic_filters
        others = [topic_filter for topic_filter in outcome if isinstance(topic_filter, str)]
        return others if len(others) == len(topic_filters) else topic_filters  # there is a reason code for each

    def _refused(self, entry: p.SubscribeEntry) -> int:
        code = entry.code
        is_denied = code == rc.NOT_AUTHORIZED
        if code not in rc.SUBSCRIBE_FAILURES and code != rc.SUCCESS:
            code = rc.UNSPECIFIED_ERROR
        if code == rc.SUCCESS:
            code = self._not_allowed(entry.topic_filter)
        if code != rc.SUCCESS and not is_denied:
            self.broker.counters.subscribe_error += 1
            is_taken = code == rc.QUOTA_EXCEEDED and self._is_taken(entry.topic_filter)
            self._note_refused(entry.topic_filter, "exclusive_taken" if is_taken else rc.name_of(code))
        if code != rc.SUCCESS and not self.fault:
            self.fault = f"{entry.topic_filter[:200]!r} is refused: {rc.name_of(code)}"
        return code

    def _not_allowed(self, topic_filter: str) -> int:
        """What limits and the specification have against a filter."""
        options, held = self.options, self._session.subscriptions
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
            return rc.WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED  # 3.1.1 [MQTT-3.8.3-2]
        if topic_filter.startswith(EXCLUSIVE_PREFIX):
            if not options.exclusive_subscription or has_wildcard(topic_filter):
                return rc.TOPIC_FILTER_INVALID
            if self._is_taken(topic_filter):
                return rc.QUOTA_EXCEEDED
        if topic_filter in held:
            return rc.SUCCESS
        if 0 < options.max_subscriptions <= len(held) or not self.broker.pressure.may_grow(self._client.clientid):
            return rc.QUOTA_EXCEEDED
        if group and 0 < options.max_shared_subscriptions <= i64(self._session.shared_count):
            return rc.QUOTA_EXCEEDED
        return rc.SUCCESS

    def _is_taken(self, topic_filter: str) -> bool:
        """Whether another client has the exclusive subscription of that name."""
        if not topic_filter.startswith(EXCLUSIVE_PREFIX):
            return False
        holder = self.broker.exclusive.holder(self._mounted(bare_filter(topic_filter)))
        return holder is not None and holder is not self._session

    def _note_refused(self, topic_filter: str, reason: str) -> None:
        self._context.refused.on_subscribe(self._client, topic_filter, reason, self.broker.now_us)

    def _subscribe(self, entry: p.SubscribeEntry, subscription_id: int) -> int:
        qos: int = min(entry.qos, self.options.max_qos_allowed)  # [MQTT-3.8.4-7] [MQTT-3.2.2-10]
        subscription = self._session.subscriptions.get(entry.topic_filter)
        no_local = entry.no_local or (self._session.options.ignore_loop_deliver and self._client.version != p.V5)
        if subscription is not None:
            subscription.set_options(qos, no_local, entry.retain_as_published, entry.retain_handling, subscription_id)
            self._session.resubscribe(entry.topic_filter, subscription)
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
            self.broker.exclusive.take(topic_filter, self._session)
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
        store = self.broker.retained
        if store is None or subscription.group:
            return  # a shared subscription gets none (section 4.8.2)
        # [MQTT-3.3.1-9] [MQTT-3.3.1-10] [MQTT-3.3.1-11] [MQTT-3.8.4-4] 3.1.1 [MQTT-3.3.1-6] 3.1.1 [MQTT-3.8.4-3]
        if retain_handling == 0 or subscription.is_new:
            subscription.is_new = False
            if retain_handling != 2 and store.may_match(subscription.topic_filter):
                if self._retained is None:
                    self._retained = RetainedDelivery(self._context, self._session)
                self._retained.add(subscription)
