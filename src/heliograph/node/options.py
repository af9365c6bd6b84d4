"""From the configuration to the options that the parts of a node take."""

import secrets
from dataclasses import replace

from heliograph.broker.hooks import Hooks
from heliograph.broker.pubsub import Broker
from heliograph.broker.router import Router
from heliograph.broker.shared_options import SharedOptions
from heliograph.channel.options import INFINITE, AttributesOf, ChannelOptions
from heliograph.config import Config, MessagesConfig, MqttConfig, RetainerConfig
from heliograph.config.listeners import ListenerConfig
from heliograph.config.zones import levels_max, zone_of
from heliograph.retainer.options import NOT_SET, RetainerOptions
from heliograph.session.options import SessionOptions
from heliograph.settings.units import Rate
from heliograph.storage.columnar.compaction import CompactionOptions
from heliograph.storage.columnar.retention import RetentionOptions
from heliograph.storage.interface import ColumnarOptions, DatabaseOptions
from heliograph.storage.offload.commit import OffloadOptions

# The kernel counts in 64 bits: what a setting says beyond these is no different from for ever.
_MICROSECONDS_MAX = 1 << 60
_KEEPALIVE_PERCENT_MAX = 1 << 30
_HIGHEST_PRIORITY = 256  # above all that can be configured


def make_broker(config: Config, hooks: Hooks) -> Broker:
    """The kernel with its routing table and shared groups."""
    router = Router(levels_max(config), config.broker.route_cache_size)
    return Broker(router, hooks, shared_options(config), secrets.randbits(32))


def shared_options(config: Config) -> SharedOptions:
    """How shared groups choose."""
    groups = config.broker.shared_subscription_group
    return SharedOptions(
        config.mqtt.shared_subscription_strategy,
        config.mqtt.shared_subscription_initial_sticky_pick,
        {name: group.strategy for name, group in groups.items()},
        {name: group.initial_sticky_pick for name, group in groups.items()},
    )


def database_options(settings: MessagesConfig) -> DatabaseOptions:
    """How a database of messages lies on disk."""
    layout = ColumnarOptions(
        wildcard_thresholds=settings.layout.wildcard_thresholds, compression=settings.layout.compression
    )
    return DatabaseOptions(n_shards=settings.n_shards, layout=layout)


def compaction_options(settings: MessagesConfig) -> CompactionOptions | None:
    """How small blocks are merged; None if they are not."""
    compaction = settings.compaction
    if not compaction.enable:
        return None
    return CompactionOptions(
        min_age_us=microseconds(compaction.min_age),
        small_rows=compaction.small_messages,
        small_bytes=compaction.small_bytes,
        pause_s=compaction.pause,
        rest_s=compaction.interval,
    )


def retention_options(settings: MessagesConfig) -> RetentionOptions:
    """When messages are removed."""
    interval, retention = settings.generation_interval, settings.retention
    return RetentionOptions(
        retention_us=None if retention is None else microseconds(retention),
        generation_interval_us=None if interval is None else microseconds(interval),
        max_bytes=settings.max_bytes,
    )


def offload_options(settings: MessagesConfig) -> OffloadOptions | None:
    """What is offloaded; None where nothing is."""
    offload = settings.offload
    if not offload.enable:
        return None
    return OffloadOptions(offload.target, microseconds(offload.after), settings.max_bytes, offload.keep_files)


def retainer_options(settings: RetainerConfig) -> RetainerOptions:
    """What the operator says about retained messages."""
    override = settings.msg_expiry_interval_override
    return RetainerOptions(
        max_retained_messages=settings.backend.max_retained_messages or 0,
        max_retained_bytes=settings.backend.max_retained_bytes or 0,
        max_payload_size=settings.max_payload_size,
        msg_expiry_interval_us=microseconds(settings.msg_expiry_interval),
        msg_expiry_interval_override_us=NOT_SET if override is None else microseconds(override),
        max_publish_rate=_rate(settings.max_publish_rate),
        stop_publish_clear_msg=settings.stop_publish_clear_msg,
        batch_read_number=settings.flow_control.batch_read_number,
        batch_deliver_number=settings.flow_control.batch_deliver_number,
        delivery_rate=_rate(settings.delivery_rate),
    )


def channel_options(config: Config, zone: str) -> ChannelOptions:
    """What holds for the connections of a listener, as far as its zone says it."""
    settings = zone_of(config, zone)
    mqtt, ceiling, authorization = settings.mqtt, settings.force_shutdown, config.authorization
    overload = settings.overload_protection
    return ChannelOptions(
        session=_session_options(zone, mqtt, settings.durable_sessions.enable),
        zone=zone,
        idle_timeout_us=microseconds(mqtt.idle_timeout or 0),
        max_packet_size=mqtt.max_packet_size,
        max_clientid_len=mqtt.max_clientid_len,
        max_topic_levels=mqtt.max_topic_levels,
        max_qos_allowed=mqtt.max_qos_allowed,
        max_topic_alias=mqtt.max_topic_alias,
        max_user_properties=mqtt.max_user_properties,
        retain_available=mqtt.retain_available,
        wildcard_subscription=mqtt.wildcard_subscription,
        shared_subscription=mqtt.shared_subscription,
        exclusive_subscription=mqtt.exclusive_subscription,
        max_subscriptions=min(mqtt.max_subscriptions or INFINITE, INFINITE),
        max_shared_subscriptions=min(mqtt.max_shared_subscriptions or INFINITE, INFINITE),
        session_expiry_interval_s=int(mqtt.session_expiry_interval),
        message_expiry_interval_s=-1 if mqtt.message_expiry_interval is None else int(mqtt.message_expiry_interval),
        server_keepalive_s=-1 if mqtt.server_keepalive is None else mqtt.server_keepalive,
        keepalive_multiplier_percent=min(round(mqtt.keepalive_multiplier * 100), _KEEPALIVE_PERCENT_MAX),
        strict_mode=mqtt.strict_mode,
        response_information=mqtt.response_information,
        use_username_as_clientid=mqtt.use_username_as_clientid,
        unsent_bytes_max=ceiling.max_heap_size if ceiling.enable else 0,
        unsent_packets_max=ceiling.max_mailbox_size if ceiling.enable else 0,
        authz_cache_size=authorization.cache.max_size if authorization.cache.enable else 0,
        authz_cache_ttl_us=microseconds(authorization.cache.ttl),
        authz_cache_excludes=authorization.cache.excludes,
        authz_disconnects=authorization.deny_action == "disconnect",
        overload_delay_us=overload.backoff_delay * 1000 if overload.enable else -1,
        overload_refuses=overload.backoff_new_conn,
    )


def listener_options(
    config: Config, listener: str, settings: ListenerConfig, attributes_of: AttributesOf | None
) -> ChannelOptions:
    """The same with what the listener says itself.

    Args:
        listener: Its kind and name, as `tcp:default`.
        attributes_of: Makes the attributes of its clients; None for none.
    """
    return replace(
        channel_options(config, settings.zone),
        listener=listener,
        mountpoint=settings.mountpoint,
        attributes_of=attributes_of,
        enable_authn=settings.enable_authn != "false",
        deny_anonymous=settings.enable_authn == "quick_deny_anonymous",
        messages_rate=_per_second(settings.messages_rate),
        messages_burst=float(settings.messages_burst),
        bytes_rate=_per_second(settings.bytes_rate),
        bytes_burst=float(settings.bytes_burst),
    )


def microseconds(seconds: float) -> int:
    """Seconds of a setting as the kernel counts them."""
    return min(int(seconds * 1_000_000), _MICROSECONDS_MAX)


def _session_options(zone: str, mqtt: MqttConfig, durable: bool) -> SessionOptions:
    return SessionOptions(
        zone=zone,
        max_inflight=mqtt.max_inflight,
        retry_interval_us=microseconds(mqtt.retry_interval or 0),
        max_mqueue_len=min(mqtt.max_mqueue_len or 0, INFINITE),
        max_mqueue_bytes=mqtt.max_mqueue_bytes or 0,
        mqueue_store_qos0=mqtt.mqueue_store_qos0,
        mqueue_priorities=dict(mqtt.mqueue_priorities or {}),
        mqueue_default_priority=_HIGHEST_PRIORITY if mqtt.mqueue_default_priority == "highest" else 0,
        max_awaiting_rel=min(mqtt.max_awaiting_rel or 0, INFINITE),
        await_rel_timeout_us=microseconds(mqtt.await_rel_timeout),
        upgrade_qos=mqtt.upgrade_qos,
        ignore_loop_deliver=mqtt.ignore_loop_deliver,
        durable=durable,
    )


def _per_second(rate: Rate | None) -> float:
    return 0.0 if rate is None else rate.per_second


def _rate(rate: Rate | None) -> tuple[int, int] | None:
    return None if rate is None else (rate.amount, microseconds(rate.interval_s))
