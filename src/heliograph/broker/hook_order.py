"""The priorities of the broker's own callbacks at every hook point, the highest first.

The order is EMQX's: a rewritten topic may be a delayed one, what is not valid is not transformed, and what is delayed
goes nowhere. A callback of a plugin has priority 0 unless it says otherwise.
"""

from typing import Final

TRACES: Final = 1000
KNOWN_CLIENTS: Final = 990
REWRITE: Final = 980
ACCESS: Final = 970
ADDRESS_LIMITS: Final = 968
FLAPPING: Final = 966
LOG: Final = 960
SYS_TOPICS: Final = 950
AUTO_SUBSCRIBE: Final = 920
EVENTS: Final = 900
VALIDATION: Final = 890
TRANSFORMATION: Final = 885
TOPIC_METRICS: Final = 870
DELAYED: Final = 860
SPARKPLUG: Final = 850
SHARED_GROUPS: Final = 840
RULES: Final = 60
PLUGINS: Final = 0
FORGOTTEN_CLIENTS: Final = -10

PRIORITIES: Final = {
    "traces": TRACES,
    "clients that connect, for `$event`": KNOWN_CLIENTS,
    "topic rewriting": REWRITE,
    "bans, authentication, the sources of authorization": ACCESS,
    "limits by address": ADDRESS_LIMITS,
    "flapping detection": FLAPPING,
    "the log of clients": LOG,
    "`$SYS` topics": SYS_TOPICS,
    "automatic subscriptions": AUTO_SUBSCRIBE,
    "`$event` messages": EVENTS,
    "schema validation": VALIDATION,
    "message transformation": TRANSFORMATION,
    "topic metrics": TOPIC_METRICS,
    "delayed publishing": DELAYED,
    "Sparkplug births": SPARKPLUG,
    "durable shared groups": SHARED_GROUPS,
    "rules": RULES,
    "callbacks of plugins": PLUGINS,
    "clients that disconnect, for `$event`": FORGOTTEN_CLIENTS,
}
