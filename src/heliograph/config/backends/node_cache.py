"""Settings of the answers of backends that a node keeps: `authorization.node_cache` and its like for authentication."""

from dataclasses import dataclass

from heliograph.settings.fields import setting
from heliograph.settings.kinds import Boolean, Duration, Integer, Size, Unless


@dataclass(frozen=True, slots=True)
class NodeCacheConfig:
    enable: bool = setting(Boolean(), False, "Whether answers of backends are kept.")
    cache_ttl: float = setting(Duration(0.001), 60.0, "How long an answer is kept.")
    max_count: int | None = setting(
        Unless(Integer(1), "unlimited"), 1_000_000, "Answers that are kept; the oldest ones go first."
    )
    max_memory: int | None = setting(
        Unless(Size(1), "unlimited"), 100 << 20, "Memory that they take, about; the oldest ones go first."
    )
