"""What sources of all types have."""

from dataclasses import dataclass

from heliograph.config.actions.interface import RowTemplate, ignored
from heliograph.settings.fields import ListOf, list_setting, optional_section, required, section, setting
from heliograph.settings.kinds import AnyText, Boolean, Duration, Integer, Text, Unless


@dataclass(frozen=True, kw_only=True)
class LocalMessage:
    """What is published here for each message that comes."""

    topic: str = required(
        RowTemplate("a template of a topic, as in `plant/${topic}`", r"(?s).*\S.*"), "Template of the topic."
    )
    payload: str = setting(RowTemplate(), "${payload}", "Template of the payload.")
    qos: int | None = setting(
        Unless(Integer(0, 2), "same", "${qos}"), None, "Quality of service; `same` is that with which the message came."
    )
    retain: bool | None = setting(
        Unless(Boolean(), "same", "${retain}"),
        None,
        "Whether it is kept for later subscribers; `same` is as the message came.",
    )


@dataclass(frozen=True, slots=True)
class SourceResourceOpts:
    """How a source connects."""

    start_timeout: float = setting(
        Duration(0.1, 300.0), 5.0, "How long connecting, and each answer of the server, may take."
    )
    health_check_interval: float = ignored(Duration(), 15.0, "a source is connected all the time")


@dataclass(frozen=True, kw_only=True)
class MessageSourceConfig:
    """Where messages come from; each type has a class of its own."""

    enable: bool = setting(Boolean(), True, "Whether messages are taken.")
    description: str = setting(AnyText(), "", "What it is for, for people.")
    tags: tuple[str, ...] = list_setting(ListOf(Text()), (), "Words for people to find it by.")
    local: LocalMessage | None = optional_section(
        LocalMessage, "The message that is published here; without it, only rules read what comes."
    )

    @property
    def connector_name(self) -> str:
        """The connector; empty for a type without one."""
        return ""


@dataclass(frozen=True, kw_only=True)
class ConnectedSource(MessageSourceConfig):
    """A source of a server that a connector names."""

    connector: str = required(Text("the name of a connector of this type"), "The connector.", is_place=True)
    resource_opts: SourceResourceOpts = section(SourceResourceOpts, "How it connects.")

    @property
    def connector_name(self) -> str:
        """The connector."""
        return self.connector
