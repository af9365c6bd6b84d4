"""SUBSCRIBE and UNSUBSCRIBE: one decision for each topic filter, carried out at once."""

from heliograph.broker import hooks
from heliograph.broker.pubsub import Broker
from heliograph.broker.subscription import Subscription
from heliograph.channel.options import ChannelOptions
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.topic import SHARE_PREFIX, has_wildcard, topic_filter_fault
from heliograph.session.session import Session


def subscribe(broker: Broker, session: Session, packet: p.Subscribe, options: ChannelOptions) -> list[int]:
    """Subscribe a session to the filters of a SUBSCRIBE: a reason code for each, in order [MQTT-3.8.4-6]."""
    subscription_id = packet.properties.subscription_ids[0] if packet.properties.subscription_ids else 0
    denied = _denied(broker, hooks.CLIENT_SUBSCRIBE, session, packet)
    codes: list[int] = []
    for entry in packet.entries:
        code = rc.NOT_AUTHORIZED if entry.topic_filter in denied else _refused(session, entry, options)
        if code == rc.SUCCESS:
            code = _subscribe_one(session, entry, subscription_id, options)
            broker.hooks.run(hooks.SESSION_SUBSCRIBED, (session.clientid, entry.topic_filter, code))
        codes.append(code)
    return codes


def unsubscribe(broker: Broker, session: Session, packet: p.Unsubscribe) -> list[int]:
    """Drop the filters of an UNSUBSCRIBE: a reason code for each, in order [MQTT-3.11.3-1]."""
    denied = _denied(broker, hooks.CLIENT_UNSUBSCRIBE, session, packet)
    codes: list[int] = []
    for topic_filter in packet.topic_filters:
        if topic_filter in denied:
            codes.append(rc.NOT_AUTHORIZED)
        elif session.unsubscribe(topic_filter) is None:
            codes.append(rc.NO_SUBSCRIPTION_EXISTED)
        else:
            codes.append(rc.SUCCESS)
            broker.hooks.run(hooks.SESSION_UNSUBSCRIBED, (session.clientid, topic_filter))
    return codes


def _denied(broker: Broker, name: str, session: Session, packet: p.Packet) -> frozenset[str]:
    """The filters that a callback does not let the client have; the chain begins with none."""
    _, denied = broker.hooks.run(name, (session.clientid, packet), frozenset())
    if not isinstance(denied, (frozenset, set)):
        return frozenset()
    return frozenset([str(topic_filter) for topic_filter in denied])


def _refused(session: Session, entry: p.SubscribeEntry, options: ChannelOptions) -> int:
    topic_filter = entry.topic_filter
    if topic_filter_fault(topic_filter, options.max_topic_levels) is not None:
        return rc.TOPIC_FILTER_INVALID
    if topic_filter.startswith(SHARE_PREFIX):
        return rc.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED
    if has_wildcard(topic_filter) and not options.wildcard_subscription:
        return rc.WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED
    if topic_filter not in session.subscriptions and len(session.subscriptions) >= options.max_subscriptions:
        return rc.QUOTA_EXCEEDED
    return rc.SUCCESS


def _subscribe_one(session: Session, entry: p.SubscribeEntry, subscription_id: int, options: ChannelOptions) -> int:
    qos: int = min(entry.qos, options.max_qos_allowed)
    held = session.subscriptions.get(entry.topic_filter)
    if held is not None:
        held.set_options(qos, entry.no_local, entry.retain_as_published, entry.retain_handling, subscription_id)
    else:
        session.subscribe(
            Subscription(
                session,
                entry.topic_filter,
                qos,
                entry.no_local,
                entry.retain_as_published,
                entry.retain_handling,
                subscription_id,
            )
        )
    return qos
