"""From the configuration to the options that the parts of a node take."""

import secrets

from heliograph.broker.hooks import Hooks
from heliograph.broker.pubsub import Broker
from heliograph.broker.router import Router
from heliograph.broker.shared_options import SharedOptions
from heliograph.channel.options import AttributesOf, ChannelOptions, ListenerOptions
from heliograph.config.listeners import ListenerConfig, TcpListener
from heliograph.config.retainer import RetainerConfig
from heliograph.config.settings import Config, levels_max, zone_of
from heliograph.config.storage import MessagesConfig
from heliograph.retainer.options import RetainerOptions
from heliograph.session.options import SessionOptions
from heliograph.settings.records import microseconds, record
from heliograph.storage.columnar.compaction import CompactionOptions
from heliograph.storage.columnar.retention import RetentionOptions
from heliograph.storage.interface import ColumnarOptions, DatabaseOptions
from heliograph.storage.offload.commit import OffloadOptions


def make_broker(config: Config, hooks: Hooks) -> Broker:
    router = Router(levels_max(config), config.broker.route_cache_size)
    return Broker(router, hooks, shared_options(config), secrets.randbits(32))


def shared_options(config: Config) -> SharedOptions:
    groups = config.broker.shared_subscription_group
    return SharedOptions(
        config.mqtt.shared_subscription_strategy,
        config.mqtt.shared_subscription_initial_sticky_pick,
        {name: group.strategy for name, group in groups.items()},
        {name: group.initial_sticky_pick for name, group in groups.items()},
    )


def database_options(settings: MessagesConfig) -> DatabaseOptions:
    layout = ColumnarOptions(
        wildcard_thresholds=settings.layout.wildcard_thresholds, compression=settings.layout.compression
    )
    return DatabaseOptions(n_shards=settings.n_shards, layout=layout)


def compaction_options(settings: MessagesConfig) -> CompactionOptions | None:
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
    return record(RetentionOptions, settings)


def offload_options(settings: MessagesConfig) -> OffloadOptions | None:
    offload = settings.offload
    if not offload.enable:
        return None
    return OffloadOptions(offload.place, microseconds(offload.after), settings.max_bytes, offload.keep_files)


def retainer_options(settings: RetainerConfig) -> RetainerOptions:
    return record(RetainerOptions, settings, settings.backend, settings.flow_control)


def channel_options(config: Config, zone: str, listener: ListenerOptions | None = None) -> ChannelOptions:
    """What holds for the connections of a zone; `listener` is what their listener says itself."""
    settings = zone_of(config, zone)
    mqtt, ceiling, overload = settings.mqtt, settings.force_shutdown, settings.overload_protection
    authorization = config.authorization
    return record(
        ChannelOptions,
        mqtt,
        session=record(
            SessionOptions,
            mqtt,
            zone=zone,
            mqueue_priorities=dict(mqtt.mqueue_priorities or {}),
            durable=settings.durable_sessions.enable,
        ),
        listener=listener or _of_listener("tcp:default", TcpListener(), None),
        zone=zone,
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
    """What holds for the connections of a listener (`tcp:default`)."""
    return channel_options(config, settings.zone, _of_listener(listener, settings, attributes_of))


def _of_listener(name: str, settings: ListenerConfig, attributes_of: AttributesOf | None) -> ListenerOptions:
    return record(
        ListenerOptions,
        settings,
        name=name,
        enable_authn=settings.enable_authn != "false",
        deny_anonymous=settings.enable_authn == "quick_deny_anonymous",
        attributes_of=attributes_of,
    )
