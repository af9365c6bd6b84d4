"""Settings of `authorization`: the default decision, the cache of decisions, and the sources of rules."""

from dataclasses import dataclass
from typing import Any, ClassVar, Final

from heliograph.config.backends.http import HttpRequest
from heliograph.config.backends.ldap import ATTRIBUTE, LdapConnection
from heliograph.config.backends.mongodb import MongoConnection
from heliograph.config.backends.node_cache import NodeCacheConfig
from heliograph.config.backends.redis import RedisCommand, RedisCommandText, RedisConnection
from heliograph.config.backends.sql import QUERY, MysqlConnection, PostgresqlConnection
from heliograph.settings.fields import ListOfVariants, required, section, setting, variants
from heliograph.settings.kinds import AnyText, Boolean, Choice, Duration, Integer, TopicFilters

#: Where rules are if nothing else is said; it need not exist.
DEFAULT_FILE: Final = "/etc/heliograph/acl.conf"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceConfig:
    """One source of rules; its class adds `type`, of one valid word.

    Attributes:
        maker: The module that makes one of settings; loaded when it is needed.
    """

    maker: ClassVar[str]
    enable: bool = setting(Boolean(), True, "Whether it is asked.")


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltInDatabaseSourceConfig(SourceConfig):
    """Rules of client ids, of user names, and of all clients, that commands set."""

    maker = "built_in_database"
    type: str = setting(Choice("built_in_database"), "built_in_database", "Which source it is.")
    max_rules: int = setting(
        Integer(1), 100, "Rules that a client id, a user name, or all clients may have; checked when they are set."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSourceConfig(SourceConfig):
    maker = "file"
    type: str = setting(Choice("file"), "file", "Which source it is.")
    path: str = setting(
        AnyText("a file"),
        DEFAULT_FILE,
        "The file; may name environment variables. Only the default one may be missing: then there are no rules.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSourceConfig(SourceConfig, HttpRequest):
    """An HTTP service says what clients may do."""

    maker = "http"
    type: str = setting(Choice("http"), "http", "Which source it is.")
    request_timeout: float = setting(Duration(0.001), 30.0, "How long an answer may take.")


@dataclass(frozen=True, kw_only=True)
class LdapSourceConfig(SourceConfig, LdapConnection):
    maker = "rows_source"
    type: str = setting(Choice("ldap"), "ldap", "Which source it is.")
    publish_attribute: str = setting(
        ATTRIBUTE, "mqttPublishTopic", "Where the entry has topics that the client may publish to."
    )
    subscribe_attribute: str = setting(
        ATTRIBUTE, "mqttSubscriptionTopic", "Where it has topics that the client may subscribe to."
    )
    all_attribute: str = setting(ATTRIBUTE, "mqttPubSubTopic", "Where it has topics for both.")
    acl_rule_attribute: str = setting(ATTRIBUTE, "mqttAclRule", "Where it has rules, each a JSON object.")


@dataclass(frozen=True, kw_only=True)
class MongoSourceConfig(SourceConfig, MongoConnection):
    maker = "rows_source"
    type: str = setting(Choice("mongodb"), "mongodb", "Which source it is.")
    limit: int = setting(Integer(1, 1_000_000), 1000, "How many documents are read for a client at most.")
    skip: int = setting(Integer(0, 1_000_000), 0, "How many of the first documents are left out.")


@dataclass(frozen=True, kw_only=True)
class RedisSourceConfig(SourceConfig, RedisConnection):
    maker = "rows_source"
    type: str = setting(Choice("redis"), "redis", "Which source it is.")
    cmd: RedisCommand = required(
        RedisCommandText(RedisCommand.of_rules, 'HGETALL KEY or HMGET KEY FIELD .., as in "HGETALL acl:${username}"'),
        "What gives the topics of a client: each field is a topic filter, its value `publish`, `subscribe`, `all`, or "
        "JSON with `action`, `qos` and `retain`. What is there is allowed. The key may have placeholders.",
    )


_QUERY: Final = (
    "What gives the rules of a client, a row each in the order in which they are tried: `permission`, `action`, "
    "`topic`, and if wanted `qos`, `retain` and conditions. Placeholders are parameters, without quotes."
)


@dataclass(frozen=True, kw_only=True)
class PostgresqlSourceConfig(SourceConfig, PostgresqlConnection):
    maker = "rows_source"
    type: str = setting(Choice("postgresql"), "postgresql", "Which source it is.")
    query: str = required(QUERY, _QUERY)


@dataclass(frozen=True, kw_only=True)
class MysqlSourceConfig(SourceConfig, MysqlConnection):
    maker = "rows_source"
    type: str = setting(Choice("mysql"), "mysql", "Which source it is.")
    query: str = required(QUERY, _QUERY)


# One line for each kind, in the order of the documents.
_MODELS: Final[tuple[type[Any], ...]] = (
    FileSourceConfig,
    BuiltInDatabaseSourceConfig,
    HttpSourceConfig,
    MysqlSourceConfig,
    PostgresqlSourceConfig,
    MongoSourceConfig,
    RedisSourceConfig,
    LdapSourceConfig,
)
SOURCES: Final = ListOfVariants(_MODELS, ("type",))


def source_type(settings: SourceConfig) -> str:
    return SOURCES.name_of(type(settings))


@dataclass(frozen=True, slots=True)
class AuthorizationCache:
    """Decisions that a connection remembers."""

    enable: bool = setting(Boolean(), True, "Whether decisions are remembered.")
    max_size: int = setting(Integer(1, 1_048_576), 32, "Decisions that one connection remembers.")
    ttl: float = setting(Duration(0.001), 60.0, "How long a decision is remembered.")
    excludes: tuple[str, ...] = setting(TopicFilters(), (), "Topics that no decision is remembered about.")


@dataclass(frozen=True, slots=True)
class Authorization:
    """Who may publish and subscribe to what."""

    no_match: str = setting(Choice("allow", "deny"), "allow", "The decision where no source decides.")
    deny_action: str = setting(
        Choice("ignore", "disconnect"),
        "ignore",
        "Whether a client that is denied keeps its connection.",
    )
    check_retained_source: bool = setting(
        Boolean(),
        False,
        "Whether a retained message is held back while one of its publisher's id and user name may not publish it.",
    )
    check_deliveries: bool = setting(
        Boolean(),
        False,
        "Whether a filter with a wildcard brings only messages to whose topics its client may subscribe.",
    )
    cache: AuthorizationCache = section(AuthorizationCache, "Decisions that a connection remembers.")
    node_cache: NodeCacheConfig = section(NodeCacheConfig, "Answers of backends that the node remembers.")
    sources: tuple[SourceConfig, ...] = variants(
        SOURCES,
        "Sources of rules, asked one after the other until one decides.",
        default=(FileSourceConfig(),),
    )
