"""How shared groups choose the member that gets a message: the strategies by name, and which group has which."""

from typing import Final

RANDOM: Final = "random"
ROUND_ROBIN: Final = "round_robin"
ROUND_ROBIN_PER_GROUP: Final = "round_robin_per_group"
STICKY: Final = "sticky"
LOCAL: Final = "local"
HASH_CLIENTID: Final = "hash_clientid"
HASH_TOPIC: Final = "hash_topic"

STRATEGIES: Final = (RANDOM, ROUND_ROBIN, ROUND_ROBIN_PER_GROUP, STICKY, LOCAL, HASH_CLIENTID, HASH_TOPIC)
INITIAL_STICKY_PICKS: Final = (RANDOM, LOCAL, HASH_CLIENTID, HASH_TOPIC)


class SharedOptions:
    """How groups choose: a default and what single groups have of their own. Names are those of EMQX.

    Args:
        initial_sticky_pick: What `sticky` chooses by at first, one of `INITIAL_STICKY_PICKS`.
        group_initial_sticky_picks: What `sticky` chooses by at first, by the names of groups.
    """

    def __init__(
        self,
        strategy: str = ROUND_ROBIN,
        initial_sticky_pick: str = RANDOM,
        group_strategies: dict[str, str] | None = None,
        group_initial_sticky_picks: dict[str, str] | None = None,
    ) -> None:
        self.strategy = strategy
        self.initial_sticky_pick = initial_sticky_pick
        self.group_strategies = group_strategies or {}
        self.group_initial_sticky_picks = group_initial_sticky_picks or {}

    def choice_of(self, name: str) -> tuple[str, str]:
        """The strategy of a group, and what it chooses a member by where it has none for a publisher yet."""
        strategy = self.group_strategies.get(name, self.strategy)
        initial = self.group_initial_sticky_picks.get(name, self.initial_sticky_pick)
        return strategy, initial if strategy == STICKY else strategy
