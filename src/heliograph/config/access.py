"""Settings of `authorization`: the default decision, and the cache of decisions."""

from dataclasses import dataclass

from heliograph.settings.fields import section, setting
from heliograph.settings.kinds import Boolean, Choice, Duration, Integer


@dataclass(frozen=True, slots=True)
class AuthorizationCache:
    """Decisions that a connection remembers."""

    enable: bool = setting(Boolean(), True, "Whether decisions are remembered.")
    max_size: int = setting(Integer(1, 1_048_576), 32, "Decisions that one connection remembers.")
    ttl: float = setting(Duration(0.001), 60.0, "How long a decision is remembered.")


@dataclass(frozen=True, slots=True)
class Authorization:
    """Who may publish and subscribe to what."""

    no_match: str = setting(Choice("allow", "deny"), "allow", "The decision where no callback decides.")
    deny_action: str = setting(
        Choice("ignore", "disconnect"),
        "ignore",
        "Whether a client that is denied keeps its connection.",
    )
    check_retained_source: bool = setting(
        Boolean(),
        True,
        "Whether a retained message is held back while its publisher may no longer publish to its topic.",
    )
    cache: AuthorizationCache = section(AuthorizationCache, "Decisions that a connection remembers.")
