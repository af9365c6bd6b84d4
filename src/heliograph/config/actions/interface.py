"""What connectors and actions of all types have, and the kinds of settings that only they have."""

from dataclasses import dataclass
from typing import Any, Final

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
    start_timeout: float = setting(Duration(0.1, 300.0), 5.0, "How long one such try may take.")
    health_check_timeout: float = ignored(Duration(), 60.0)
    health_check_interval_jitter: float = ignored(Duration(), 0.0)
    start_after_created: bool = ignored(Boolean(), True)


@dataclass(frozen=True, slots=True)
class ActionResourceOpts(ResourceOpts):
    """How an action is watched, and how many rows go at a time."""

    batch_size: int = setting(
        Integer(1, 1_000_000), 1000, "Rows that a statement or a transaction of a database takes at a time."
    )
    batch_time: float = ignored(Duration(), 0.0)
    worker_pool_size: int = ignored(Integer(1), 16)
    query_mode: str = ignored(Choice("async", "sync"), "async")
    request_ttl: float | None = ignored(Unless(Duration(), "infinity"), 45.0)
    inflight_window: int = ignored(Integer(1), 100)
    max_buffer_bytes: int = ignored(Size(1), 256 * 1024 * 1024)
    resume_interval: float = ignored(Duration(), 15.0)
    metrics_flush_interval: float = ignored(Duration(), 5.0)
    buffer_mode: str = ignored(Choice("memory_only", "volatile_offload"), "memory_only")


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
    resource_opts: ActionResourceOpts = section(ActionResourceOpts, "How it is watched.")
