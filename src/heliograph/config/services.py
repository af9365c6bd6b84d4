"""Settings of the services around the kernel: `sys_topics`, `event_message`, `delayed`, `rewrite`, `auto_subscribe`,
`banned`, `flapping_detect`.
"""

from dataclasses import dataclass
from typing import Final

from heliograph.hocon.values import Content
from heliograph.mqtt.topic import MAX_TOPIC_BYTES, QUEUE_PREFIX, SHARE_PREFIX, has_wildcard, subscription_fault
from heliograph.settings.fields import How, section, section_list, setting
from heliograph.settings.kinds import (
    AnyText,
    Boolean,
    Choice,
    Duration,
    FilterText,
    Integer,
    Kind,
    RefusedError,
    Size,
    Text,
    Unless,
)

_MAX_AUTO_SUBSCRIPTIONS: Final = 20


class RegularExpression(Kind[str]):
    """A regular expression; empty stands for none was given."""

    expected = r'a regular expression, as in "^x/y/(.+)$"'

    def convert(self, value: Content) -> str:
        if not isinstance(value, str) or not value:
            raise RefusedError
        import regex  # most configurations have no use for it

        try:
            regex.compile(value)
        except (regex.error, OverflowError, RecursionError) as error:
            raise RefusedError(str(error)) from None
        return value


@dataclass(frozen=True, slots=True)
class SysEventMessages:
    """Which events of clients are published below `$SYS/brokers/<node>/clients/`."""

    client_connected: bool = setting(Boolean(), True, "Whether `<clientid>/connected` is published.")
    client_disconnected: bool = setting(Boolean(), True, "Whether `<clientid>/disconnected` is published.")
    client_subscribed: bool = setting(Boolean(), False, "Whether `<clientid>/subscribed` is published.")
    client_unsubscribed: bool = setting(Boolean(), False, "Whether `<clientid>/unsubscribed` is published.")


@dataclass(frozen=True, slots=True)
class SysTopics:
    sys_msg_interval: float | None = setting(
        Unless(Duration(1.0), "disabled"),
        60.0,
        "How often version, statistics and metrics are published.",
    )
    sys_heartbeat_interval: float | None = setting(
        Unless(Duration(1.0), "disabled"),
        30.0,
        "How often uptime and date are published.",
    )
    sys_event_messages: SysEventMessages = section(SysEventMessages, "Which events of clients are published.")
    allow_publish: bool = setting(
        Boolean(),
        False,
        "Whether clients and rules may publish below `$SYS/` and `$events/`, where they can pass for the broker.",
    )


@dataclass(frozen=True, slots=True)
class EventMessage:
    client_connected: bool = setting(Boolean(), False, "Whether `$events/client_connected` is published.")
    client_disconnected: bool = setting(Boolean(), False, "Whether `$events/client_disconnected` is published.")
    session_subscribed: bool = setting(Boolean(), False, "Whether `$events/session_subscribed` is published.")
    session_unsubscribed: bool = setting(Boolean(), False, "Whether `$events/session_unsubscribed` is published.")
    message_delivered: bool = setting(Boolean(), False, "Whether `$events/message_delivered` is published.")
    message_acked: bool = setting(Boolean(), False, "Whether `$events/message_acked` is published.")
    message_dropped: bool = setting(Boolean(), False, "Whether `$events/message_dropped` is published.")
    delivery_dropped: bool = setting(Boolean(), False, "Whether `$events/delivery_dropped` is published.")


@dataclass(frozen=True, slots=True)
class Delayed:
    """Messages to `$delayed/<seconds>/<topic>`, which are published later."""

    enable: bool = setting(Boolean(), True, "Whether such messages are held; otherwise the topic is like any other.")
    max_delayed_messages: int | None = setting(
        Unless(Integer(1), "infinity", zero=True),
        100_000,
        "Messages that are held; beyond it they are refused with 0x97.",
    )
    max_delayed_bytes: int | None = setting(
        Unless(Size(1024), "infinity", zero=True),
        256 * 1024 * 1024,
        "Bytes of the messages that are held, 1024 added for each; beyond it they are refused with 0x97.",
    )
    storage_type: str = setting(
        Choice("ram", "disc"),
        "disc",
        "Where they are held: in memory, so that a restart loses them, or on the disk too, of a node that keeps "
        "messages.",
        how=How.RESTART,
    )


@dataclass(frozen=True, slots=True)
class RewriteRule:
    action: str = setting(
        Choice("publish", "subscribe", "all"), "all", "What is rewritten: messages, subscriptions, or both."
    )
    source_topic: str = setting(FilterText(), "", "Which topics (or filters) the rule is for.")
    re: str = setting(RegularExpression(), "", "What a topic must look like; its groups are `$1`, `$2` and so on.")
    dest_topic: str = setting(
        Text("a topic"), "", "The topic instead; `$1`, `${clientid}` and `${username}` are filled in."
    )

    def __post_init__(self) -> None:
        needed = {"source_topic": self.source_topic, "re": self.re, "dest_topic": self.dest_topic}
        missing = [name for name, value in needed.items() if not value]
        if missing and (len(missing) < len(needed) or self.action != "all"):
            raise RefusedError(f"a rewrite rule needs {' and '.join(missing)} too")
        if self.action != "subscribe" and has_wildcard(self.dest_topic):
            raise RefusedError(
                f'dest_topic "{self.dest_topic}" holds a wildcard, and messages are published to topic names; only '
                "a rule with action = subscribe may hold + and #"
            )


@dataclass(frozen=True, slots=True)
class AutoSubscribeTopic:
    topic: str = setting(
        Text("a topic filter"),
        "",
        "The filter; `${clientid}`, `${username}`, `${host}`, `${port}` and `${client_attrs.NAME}` are filled in.",
    )
    qos: int = setting(Integer(0, 2), 0, "The QoS of the subscription.")
    rh: int = setting(Integer(0, 2), 0, "Retain handling: 0 sends retained messages, 1 to new subscriptions, 2 none.")
    rap: int = setting(Integer(0, 1), 0, "Retain as published: 1 leaves the retain flag of messages as it is.")
    nl: int = setting(Integer(0, 1), 0, "No local: 1 keeps what the client publishes itself from it.")

    def __post_init__(self) -> None:
        if not self.topic:
            if (self.qos, self.rh, self.rap, self.nl) != (0, 0, 0, 0):
                raise RefusedError("an automatic subscription needs topic too")
            return
        fault = subscription_fault(self.topic, MAX_TOPIC_BYTES)
        if fault is not None:
            raise RefusedError(fault)
        if self.nl and self.topic.startswith((SHARE_PREFIX, QUEUE_PREFIX)):
            raise RefusedError(f'nl = 1 is not allowed for a shared subscription such as "{self.topic}"')


@dataclass(frozen=True, slots=True)
class AutoSubscribe:
    topics: tuple[AutoSubscribeTopic, ...] = section_list(AutoSubscribeTopic, "The filters.")

    def __post_init__(self) -> None:
        if len(self.topics) > _MAX_AUTO_SUBSCRIPTIONS:
            raise RefusedError(f"found {len(self.topics)} topics, at most {_MAX_AUTO_SUBSCRIPTIONS} are allowed")


@dataclass(frozen=True, slots=True)
class Banned:
    bootstrap_file: str = setting(
        AnyText("a file"),
        "",
        "CSV file with the bans to begin with (as,who,reason,by,at,until); empty for none.",
    )
    max_entries: int = setting(Integer(1), 100_000, "Bans that are held; beyond it new ones are refused and counted.")


@dataclass(frozen=True, slots=True)
class FlappingDetect:
    """Client ids that connect all the time."""

    enable: bool = setting(Boolean(), False, "Whether such clients are banned.")
    window_time: float = setting(Duration(1.0), 60.0, "The span of time in which connections are counted.")
    max_count: int = setting(Integer(1), 15, "How many connections of a client id within it ban it.")
    ban_time: float = setting(Duration(1.0), 300.0, "How long it is banned.")
