"""Checks of settings that are valid by themselves and contradict each other.

Open listeners are checked where a node starts and where its configuration changes, not where one is only read.
"""

from collections.abc import Iterator
from typing import Final

from heliograph.config.actions.fallback_ways import fallback_faults
from heliograph.config.actions.roots import action_faults
from heliograph.config.listeners import ListenerConfig, SslListener, WssListener, enabled
from heliograph.config.monitoring import COUNTED_TOPICS_MAX
from heliograph.config.mqtt import MqttConfig, empty_attributes
from heliograph.config.outbound_targets import target_faults
from heliograph.config.rules import RuleConfig
from heliograph.config.settings import DEFAULT_ZONE, Config
from heliograph.config.sources.loops import loop_faults
from heliograph.config.sources.roots import source_faults
from heliograph.config.storage import (
    METRIC_NAMES,
    RESERVED_NAMES,
    TOKEN_LENGTH_MIN,
    FlightConfig,
    FlightTokenConfig,
    MessagesConfig,
)
from heliograph.settings.units import Address, UnixAddress, is_loopback

Path = tuple[str, ...]
_ADVICE: Final = (
    "where every client that reaches it would be let in: authenticate clients (authentication = [{ mechanism = "
    "password_based, backend = built_in_database }], and `heliograph ctl users add NAME` adds a user), or bind it to "
    "127.0.0.1, or say that this is meant (%s.allow_anonymous_network = true)"
)


def contradictions(config: Config) -> Iterator[tuple[Path, str]]:
    """The path of each setting that does not go together with the others, and why."""
    taken: dict[Address | UnixAddress, Path] = {}
    for kind, name, listener in enabled(config.listeners):
        path = ("listeners", kind, name)
        if listener.zone != DEFAULT_ZONE and listener.zone not in config.zones:
            yield (*path, "zone"), _no_zone(config, listener.zone)
        if _is_fixed(listener):
            other = taken.setdefault(listener.bind, path)
            if other != path:
                yield (*path, "bind"), _same_address(listener.bind, other)
    mqtts: dict[Path, MqttConfig] = {("mqtt",): config.mqtt}
    mqtts |= {
        ("zones", name, "mqtt"): zone.mqtt
        for name, zone in config.zones.items()
        if zone.mqtt.client_attrs_init is not config.mqtt.client_attrs_init  # already reported for the root
    }
    for group, mqtt in mqtts.items():
        faults = empty_attributes(mqtt.client_attrs_init)
        yield from (((*group, "client_attrs_init", *place), fault) for place, fault in faults)
    yield from _offload(config)
    yield from _flight(config.durable_storage.flight)
    yield from ((("schema_registry", *path), fault) for path, fault in config.schema_registry.faults())
    types = {name: schema.type for name, schema in config.schema_registry.schemas.items()}
    yield from ((("schema_validation", *path), fault) for path, fault in config.schema_validation.faults(types))
    yield from (
        (("message_transformation", *path), fault) for path, fault in config.message_transformation.faults(types)
    )
    for name, rule in config.rule_engine.rules.items():
        if not rule.sql and rule != RuleConfig():
            yield ("rule_engine", "rules", name), "a rule needs sql"
    yield from action_faults(config.connectors, config.actions)
    yield from source_faults(config.connectors, config.sources)
    yield from fallback_faults(config.actions)
    yield from loop_faults(config)
    yield from target_faults(config)
    if len(config.topic_metrics) > COUNTED_TOPICS_MAX:
        yield ("topic_metrics",), f"found {len(config.topic_metrics)} topics, at most {COUNTED_TOPICS_MAX} are counted"
    if config.pipeline.enable and not config.durable_storage.flight.enable:
        text = "a pipeline reads from the storage reader: set durable_storage.flight.enable, or disable the pipeline"
        yield ("pipeline", "enable"), text
    for name in config.durable_storage.databases:
        if name in RESERVED_NAMES:
            own = ", ".join(RESERVED_NAMES)
            yield (
                ("durable_storage", "databases", name),
                f"the broker has databases of its own: {own}; choose another name",
            )
        elif name in METRIC_NAMES:
            text = f"metrics of the database messages begin with {', '.join(METRIC_NAMES)}; choose another name"
            yield ("durable_storage", "databases", name), text


def _offload(config: Config) -> Iterator[tuple[Path, str]]:
    storage = config.durable_storage
    databases: dict[Path, MessagesConfig] = {("durable_storage", "messages"): storage.messages}
    databases |= {("durable_storage", "databases", name): one for name, one in storage.databases.items()}
    for path, settings in databases.items():
        if settings.offload.enable and not settings.offload.target:
            yield (
                (*path, "offload", "target"),
                'found "", where offload is enabled: give a directory or a URI such as "s3://bucket/path"',
            )
        elif (fault := settings.offload.fault()) is not None:
            yield (*path, "offload", fault[0]), fault[1]


def _flight(flight: FlightConfig) -> Iterator[tuple[Path, str]]:
    path = ("durable_storage", "flight")
    names: set[str] = set()
    for number, token in enumerate(flight.tokens, 1):
        place = (*path, "tokens", str(number))
        fault = _token_fault(token)
        if fault is not None:
            yield place, fault
        if token.name in names:
            yield (*place, "name"), f'found "{token.name}" a second time: give each token a name of its own'
        names.add(token.name)
    if not flight.enable:
        return
    if flight.require_token == "true" and not flight.tokens:
        yield (
            (*path, "require_token"),
            "found true without any token, so that no client could read: describe flight.tokens",
        )
    if flight.require_token == "auto" and not flight.tokens and not is_loopback(flight.bind.host):
        yield (
            (*path, "bind"),
            f'found "{flight.bind}", where every client that reaches it could read all messages: describe who may in '
            "durable_storage.flight.tokens, bind to 127.0.0.1, or say durable_storage.flight.require_token = false",
        )


def _token_fault(token: FlightTokenConfig) -> str | None:
    """The token is never shown."""
    given = [key for key in ("token", "sha256") if getattr(token, key)]
    if len(given) != 1:
        return f"expected one of token and sha256, found {' and '.join(given) or 'none of them'}"
    text = token.token.text
    if text and not (len(text) >= TOKEN_LENGTH_MIN and text.isascii()):
        return f"expected a token of {TOKEN_LENGTH_MIN} ASCII characters at least, found {len(text)} characters"
    return None


def _no_zone(config: Config, zone: str) -> str:
    known = ", ".join(sorted({DEFAULT_ZONE, *config.zones}))
    return f'found "{zone}", but there is no such zone; there are {known}. Describe it under zones.{zone}'


def _same_address(bind: Address | UnixAddress, other: Path) -> str:
    path = ".".join(other)
    return f'found "{bind}", where {path} listens already: choose another, or say {path}.enable = false'


def _is_fixed(listener: ListenerConfig) -> bool:
    """Whether a listener opens just this address; of port 0 the system makes a free one."""
    return isinstance(listener.bind, UnixAddress) or listener.bind.port != 0


def open_listener_faults(config: Config) -> Iterator[tuple[tuple[str, ...], str]]:
    """The address of each listener that is open to strangers without leave, and what can be done."""
    for kind, name, listener in enabled(config.listeners):
        if is_open(config, listener) and not listener.allow_anonymous_network:
            path = ("listeners", kind, name)
            yield (*path, "bind"), f'found "{listener.bind}", {_ADVICE % ".".join(path)}'


def is_open(config: Config, listener: ListenerConfig) -> bool:
    """Whether others than this machine reach a listener, which asks for neither a password nor a certificate."""
    bind = listener.bind
    if isinstance(bind, UnixAddress) or is_loopback(bind.host):  # who may use a Unix socket, its file says
        return False
    return not demands_certificate(listener) and not authenticates(config, listener)


def demands_certificate(listener: ListenerConfig) -> bool:
    """Whether only clients with a certificate get in that an authority of the listener has signed."""
    if not isinstance(listener, SslListener | WssListener):
        return False
    return listener.ssl_options.verify and listener.ssl_options.fail_if_no_peer_cert


def authenticates(config: Config, listener: ListenerConfig) -> bool:
    """Whether an authenticator is asked about the clients of a listener: one of its own, or else of all listeners."""
    chain = listener.authentication or config.authentication
    return listener.enable_authn != "false" and any(one.enable for one in chain)
