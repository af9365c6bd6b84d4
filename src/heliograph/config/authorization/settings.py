"""Settings of `authorization`: the default decision, and the cache of decisions."""

from dataclasses import dataclass

from heliograph.config.authorization.file import FileSourceConfig
from heliograph.config.authorization.kinds import SOURCES
from heliograph.config.authorization.source import SourceConfig
from heliograph.config.backends.node_cache import NodeCacheConfig
from heliograph.settings.fields import section, setting, variants
from heliograph.settings.kinds import Boolean, Choice, Duration, Integer, TopicFilters


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
