"""What connectors and actions of all types have, and the kinds of settings that only they have."""

from dataclasses import dataclass
from typing import Any, Final

from heliograph.config.actions.fallbacks import Fallback, FallbackActions
from heliograph.hocon.values import Content
from heliograph.mqtt.template import split_template
from heliograph.settings.fields import ListOf, list_setting, optional, optional_section, required, section, setting
from heliograph.settings.kinds import (
    AnyText,
    Boolean,
    Choice,
    Duration,
    Integer,
    Kind,
    RefusedError,
    SecretText,
    Size,
    Text,
    Unless,
)
from heliograph.settings.secrets import Secret
from heliograph.settings.tls import ClientTls

_FOR_EMQX: Final = "Accepted as EMQX has it, without a meaning here"
WAITS: Final = "rows wait in the storage"
ONE_CONNECTION: Final = "one connection of each action keeps the order of its rows"


def ignored(kind: Kind[Any], default: Any, reason: str = WAITS) -> Any:
    """A setting of EMQX's that configurations have, and that has no meaning here, for a reason."""
    return setting(kind, default, f"{_FOR_EMQX}: {reason}.")


class RowTemplate(Text):
    """A text in which `${name}` stands for a value of a row."""

    def __init__(self, expected: str = 'a template, as in "${topic}"', pattern: str = r"(?s).*") -> None:
        super().__init__(expected, pattern)

    def convert(self, value: Content) -> str:
        """The text, whose placeholders are closed."""
        text = super().convert(value)
        if any("${" in part for part, _ in split_template(text, lambda name: True)):
            raise RefusedError("it has a ${ without its }")
        return text


class SentTemplate(RowTemplate):
    """One of what a server is sent."""

    is_sent = True


@dataclass(frozen=True, slots=True)
class ResourceOpts:
    """How a connector or an action is watched."""

    health_check_interval: float = setting(
        Duration(1.0, 3600.0), 15.0, "How often it is tried whether the target can be reached."
    )
    health_check_interval_jitter: float = setting(
        Duration(0.0, 3600.0), 0.0, "How much longer an interval may be, at random."
    )
    start_timeout: float = setting(Duration(0.1, 300.0), 5.0, "How long one such try may take.")
    health_check_timeout: float = setting(Duration(0.1), 60.0, "Likewise; the shorter one counts.")
    start_after_created: bool = ignored(Boolean(), True, "nothing is started, a server is looked at")


_OF_CONNECTOR: Final = "its connector is looked at"


@dataclass(frozen=True, slots=True)
class ActionResourceOpts:
    """How rows wait for an action and go to it.

    What waits may be dropped only where these settings say so, so the defaults of EMQX that drop are not those here.
    """

    batch_size: int = setting(
        Integer(1, 1_000_000), 1000, "Rows that a statement or a transaction of a database takes at a time."
    )
    batch_time: float = setting(
        Duration(0.0, 3600.0),
        0.0,
        "How long rows are gathered while there are fewer than `batch_size`. Of the local engine; on Spark, "
        "`pipeline.trigger` says it.",
    )
    request_ttl: float | None = setting(
        Unless(Duration(0.001), "infinity"),
        None,
        "How long a row may wait; one that is older is dropped, and counted as `dropped.expired`. Of the local engine; "
        "on Spark none is dropped. EMQX has `45s`.",
    )
    max_buffer_bytes: int | None = setting(
        Unless(Size(1), "infinity"),
        None,
        "Bytes of rows that may wait, about; beyond, the oldest are dropped, and counted as `dropped.queue_full`. Of "
        "the local engine; on Spark none are dropped. EMQX has `256MB`.",
    )
    inflight_window: int = setting(
        Integer(1),
        100,
        "Requests of `http`, and messages of `mqtt`, that may be under way, below the connector's limit.",
    )
    resume_interval: float = setting(
        Duration(0.1, 3600.0),
        15.0,
        "The longest pause before a batch that failed is tried again. Of the local engine.",
    )
    worker_pool_size: int = ignored(Integer(1), 16, "one worker keeps the order of rows")
    query_mode: str = ignored(Choice("async", "sync"), "async", "a rule never waits for a target")
    buffer_mode: str = ignored(Choice("memory_only", "volatile_offload"), "memory_only")
    metrics_flush_interval: float = ignored(Duration(), 5.0, "figures are those of the last half second")
    health_check_interval: float = ignored(Duration(), 15.0, _OF_CONNECTOR)
    health_check_interval_jitter: float = ignored(Duration(), 0.0, _OF_CONNECTOR)
    health_check_timeout: float = ignored(Duration(), 60.0, _OF_CONNECTOR)
    start_timeout: float = ignored(Duration(), 5.0, _OF_CONNECTOR)
    start_after_created: bool = ignored(Boolean(), True, "an action starts with the rule that names it")

    @property
    def given_to_local_engine(self) -> tuple[str, ...]:
        """Those settings that are given and that Spark does not heed."""
        names = ("batch_time", "request_ttl", "max_buffer_bytes")
        return tuple(name for name in names if getattr(self, name))


@dataclass(frozen=True, kw_only=True)
class ConnectorConfig:
    """How a server, or a place of tables, is reached; each type has a class of its own."""

    enable: bool = setting(Boolean(), True, "Whether its actions run.")
    description: str = setting(AnyText(), "", "What it is for, for people.")
    tags: tuple[str, ...] = list_setting(ListOf(Text()), (), "Words for people to find it by.")
    resource_opts: ResourceOpts = section(ResourceOpts, "How it is watched.")

    def addresses(self) -> tuple[tuple[str, int], ...]:
        """Host and port of the servers of which one must answer; none where there is no server."""
        return ()


@dataclass(frozen=True, kw_only=True)
class ServerConnectorConfig(ConnectorConfig):
    """A connector to a server that asks who connects."""

    username: str | None = optional(Text("a user name"), "Who connects.")
    password: Secret | None = optional(SecretText(), "The password for it, or `file://PATH` with it.")
    tls: ClientTls | None = optional_section(ClientTls, "TLS to the server.", name="ssl", has_switch=True)


@dataclass(frozen=True, kw_only=True)
class ActionConfig:
    """What is done with the rows of the rules that name it; each type has a class of its own."""

    connector: str = required(Text("the name of a connector of this type"), "The connector.", is_place=True)
    enable: bool = setting(
        Boolean(), True, "Whether rows go there; rows that rules make while it is not are not kept for it."
    )
    description: str = setting(AnyText(), "", "What it is for, for people.")
    tags: tuple[str, ...] = list_setting(ListOf(Text()), (), "Words for people to find it by.")
    fallback_actions: tuple[Fallback, ...] = setting(
        FallbackActions(),
        (),
        "What gets the rows that the target refuses for good, in the place of the "
        "[dead letters](actions.md#fallback-actions).",
    )
    resource_opts: ActionResourceOpts = section(ActionResourceOpts, "How rows wait for it.")
