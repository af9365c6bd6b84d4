"""What a client subscribes to: SUBSCRIBE, UNSUBSCRIBE, and subscriptions made on its behalf.

Each filter is decided and carried out at once. A packet may hold a hundred thousand of them, so that they are taken in
as many turns as they need; the retained messages that new subscriptions match follow as the client takes them
(`retained`).
"""

from typing import Final

from mypy_extensions import i64

from heliograph.broker import hooks
from heliograph.broker.client import ClientInfo
from heliograph.broker.subscription import Subscription
from heliograph.channel.authorization import Authorizer, PendingDecision
from heliograph.channel.context import ChannelContext
from heliograph.channel.options import INFINITE, ChannelOptions
from heliograph.channel.retained import RetainedDelivery
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.decode import decode_entries, decode_topic_filters
from heliograph.mqtt.properties import Properties
from heliograph.mqtt.strictness import strict_fault
from heliograph.mqtt.topic import EXCLUSIVE_PREFIX, bare_filter, has_wildcard, split_share, subscription_fault
from heliograph.session.session import Session

# What deciding a filter costs, in deliveries, and how many are decided whatever they cost.
_FILTER_WORK: Final = 8
_FILTERS_AT_ONCE: Final = 16
_DECODED_AT_ONCE: Final = 1024


class Subscribing:
    """The subscribing half of one client's conversation; made with its first SUBSCRIBE, owned by its channel.

    Attributes:
        broker: The kernel.
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
        self.broker = context.broker
        self._options = options
        self._session = session
        self._client = client
        self._authorizer = authorizer
        self._retained: RetainedDelivery | None = None  # what new subscriptions have yet to get
        self._leaves_group = False  # what waits for its members has yet to be passed on
        self.fault = ""

    def begin_subscribe(self, packet: p.Subscribe) -> "FilterWork":
        """A SUBSCRIBE: what the client may not subscribe to, by the filters that it named, is refused."""
        work = FilterWork(self, p.SUBACK, packet.packet_id, packet.entries, [], packet.properties)
        work.is_authorized = not self.broker.hooks.client_authorize.callbacks
        return work

    def begin_unsubscribe(self, packet: p.Unsubscribe) -> "FilterWork":
        """An UNSUBSCRIBE."""
        topic_filters = self._unhooked(packet.topic_filters, packet.properties)
        return FilterWork(self, p.UNSUBACK, packet.packet_id, [], topic_filters, packet.properties)

    def subscribe(self, entries: list[p.SubscribeEntry]) -> list[int]:
        """Subscribe on the client's behalf, whatever it may do itself: a reason code for each filter."""
        work = FilterWork(self, p.SUBACK, 0, entries, [], Properties())
        work.advance(INFINITE)
        return work.codes

    def unsubscribe(self, topic_filters: list[str]) -> list[int]:
        """Unsubscribe on the client's behalf: a reason code for each filter."""
        properties = Properties()
        work = FilterWork(self, p.UNSUBACK, 0, [], self._unhooked(topic_filters, properties), properties)
        work.advance(INFINITE)
        return work.codes

    def subscribe_one(self, entry: p.SubscribeEntry, properties: Properties) -> int:
        """Decide one filter of a packet with these properties and carry it out: its reason code."""
        code = self._refused(entry)
        if code == rc.SUCCESS:
            ids = properties.subscription_ids
            code = self._subscribe(entry, ids[0] if ids else 0)
            told = (self._client.clientid, entry.topic_filter, code, properties)
            self.broker.hooks.run(hooks.SESSION_SUBSCRIBED, told)
        return code

    def unsubscribe_one(self, topic_filter: str, properties: Properties) -> int:
        """Drop one filter of a packet with these properties: its reason code."""
        subscription = self._session.unsubscribe(topic_filter)
        if subscription is None:
            fault = subscription_fault(topic_filter, self._options.max_topic_levels)
            # [MQTT-3.11.3-2] 3.1.1 [MQTT-3.10.4-5]
            return rc.NO_SUBSCRIPTION_EXISTED if fault is None else rc.TOPIC_FILTER_INVALID
        self._leaves_group = self._leaves_group or subscription.group != ""
        told = (self._client.clientid, topic_filter, subscription.qos, properties)
        self.broker.hooks.run(hooks.SESSION_UNSUBSCRIBED, told)
        return rc.SUCCESS

    def pass_on(self) -> None:
        """Let other members have what waits for groups that were left since the last call."""
        if self._leaves_group:
            self._leaves_group = False
            self._session.pass_on()

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
                entry.code = before.code  # another filter makes nobody allowed who was not
        return changed

    def authorize(self, entry: p.SubscribeEntry) -> PendingDecision | None:
        """Refuse a filter that the client may not subscribe to, by the name that it gave, without a group before it.

        Returns:
            The answer if that is not there yet; then the filter is not refused.
        """
        fault = subscription_fault(entry.topic_filter, self._options.max_topic_levels)
        authorizer = self._authorizer
        if fault is None and not authorizer.may_subscribe(bare_filter(entry.topic_filter)):
            if authorizer.awaited is not None:
                return authorizer.awaited
            self.deny(entry)
        return None

    def deny(self, entry: p.SubscribeEntry) -> None:
        """Refuse a filter that the client may not subscribe to."""
        self.broker.counters.subscriptions_not_authorized += 1
        entry.code = rc.NOT_AUTHORIZED

    def _unhooked(self, topic_filters: list[str], properties: Properties) -> list[str]:
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
            return rc.WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED  # 3.1.1 [MQTT-3.8.3-2]
        if topic_filter.startswith(EXCLUSIVE_PREFIX):
            if not options.exclusive_subscription or has_wildcard(topic_filter):
                return rc.TOPIC_FILTER_INVALID
            holder = self.broker.exclusive.get(self._mounted(bare_filter(topic_filter)))
            if holder is not None and holder is not self._session:
                return rc.QUOTA_EXCEEDED
        if topic_filter in held:
            return rc.SUCCESS
        if len(held) >= options.max_subscriptions or not self.broker.pressure.may_grow(self._client.clientid):
            return rc.QUOTA_EXCEEDED
        if group and self._session.shared_count >= options.max_shared_subscriptions:
            return rc.QUOTA_EXCEEDED
        return rc.SUCCESS

    def _subscribe(self, entry: p.SubscribeEntry, subscription_id: int) -> int:
        qos: int = min(entry.qos, self._options.max_qos_allowed)  # [MQTT-3.8.4-7] [MQTT-3.2.2-10]
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
            self.broker.exclusive[topic_filter] = self._session
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


class Undecoded:
    """A SUBSCRIBE or an UNSUBSCRIBE with more filters than are decoded at once, and the bytes that it stands in."""

    def __init__(
        self, subscribe: p.Subscribe | None, unsubscribe: p.Unsubscribe | None, data: bytes, stop: i64
    ) -> None:
        self.subscribe = subscribe
        self.unsubscribe = unsubscribe
        self._data = data
        self._stop = stop

    def advance(self, version: i64) -> bool:
        """Decode some more filters; whether all are.

        Raises:
            ProtocolError: One breaks the specification.
        """
        if self.subscribe is not None:
            if self.subscribe.rest_at < self._stop:
                decode_entries(self.subscribe, self._data, self._stop, version, _DECODED_AT_ONCE)
            return self.subscribe.rest_at >= self._stop
        if self.unsubscribe is not None and self.unsubscribe.rest_at < self._stop:
            decode_topic_filters(self.unsubscribe, self._data, self._stop, _DECODED_AT_ONCE)
            return self.unsubscribe.rest_at >= self._stop
        return True


class FilterWork:
    """The filters of one SUBSCRIBE or UNSUBSCRIBE and how far they are; held by the channel until they are done.

    Attributes:
        kind: The type of the answer, SUBACK or UNSUBACK.
        packet_id: Whose answer it is.
        codes: The reason codes so far, in order [MQTT-3.8.4-6] [MQTT-3.9.3-1] [MQTT-3.11.3-1].
        fault: Why the first refused filter of a SUBSCRIBE was refused.
        is_authorized: Whether the client need not be asked for any more what it may subscribe to.
        awaited: Whether it may subscribe to a filter, where that is not known yet.
    """

    def __init__(
        self,
        subscribing: Subscribing,
        kind: int,
        packet_id: int,
        entries: list[p.SubscribeEntry],
        topic_filters: list[str],
        properties: Properties,
    ) -> None:
        self.kind = kind
        self.packet_id = packet_id
        self.codes: list[int] = []
        self.fault = ""
        self.is_authorized = True
        self.awaited: PendingDecision | None = None
        self._authorized_count: i64 = 0
        self._is_hooked = kind != p.SUBACK
        self._subscribing = subscribing
        self._entries = entries
        self._topic_filters = topic_filters
        self._properties = properties
        subscribing.fault = ""

    def decided(self, allowed: bool) -> None:
        """The answer that was waited for is there."""
        self.awaited = None
        if not allowed:
            self._subscribing.deny(self._entries[self._authorized_count - 1])

    def _authorize(self, work_max: i64) -> bool:
        """Ask what the client may subscribe to; whether that is known of all filters."""
        broker, subscribing = self._subscribing.broker, self._subscribing
        until: i64 = self._authorized_count + _FILTERS_AT_ONCE
        while self._authorized_count < len(self._entries):
            if self._authorized_count >= until and broker.work > work_max:
                return False
            broker.work += _FILTER_WORK
            self.awaited = subscribing.authorize(self._entries[self._authorized_count])
            self._authorized_count += 1
            if self.awaited is not None:
                return False
        self.is_authorized = True
        return True

    def advance(self, work_max: i64) -> bool:
        """Go on until the broker has done so much work, or must wait for an answer; whether all filters are done."""
        if not self.is_authorized and not self._authorize(work_max):
            return False
        if not self._is_hooked:  # callbacks may change what the client named, and was asked about
            self._is_hooked = True
            self._entries = self._subscribing.hooked(self._entries, self._properties)
        subscribing = self._subscribing
        broker = subscribing.broker
        at: i64 = len(self.codes)
        count: i64 = max(len(self._entries), len(self._topic_filters))
        until: i64 = at + _FILTERS_AT_ONCE
        # One after the other, as if each had a packet of its own: [MQTT-3.8.4-5] [MQTT-3.10.4-6] 3.1.1 [MQTT-3.8.4-4]
        # 3.1.1 [MQTT-3.10.4-6]; and a code for each: [MQTT-3.8.4-6] [MQTT-3.9.3-1] 3.1.1 [MQTT-3.8.4-5]
        # 3.1.1 [MQTT-3.9.3-1]
        while at < count:
            if at >= until and broker.work > work_max:
                subscribing.pass_on()
                return False
            broker.work += _FILTER_WORK
            if self.kind == p.SUBACK:
                self.codes.append(subscribing.subscribe_one(self._entries[at], self._properties))
            else:
                self.codes.append(subscribing.unsubscribe_one(self._topic_filters[at], self._properties))
            at += 1
        subscribing.pass_on()
        self.fault = subscribing.fault
        return True
