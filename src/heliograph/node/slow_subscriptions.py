"""Slow subscriptions as a part of a node."""

from heliograph.broker.delivery_times import INTERNAL, RESPONSE, WHOLE
from heliograph.config import Config, SlowSubs
from heliograph.events.slow_subscriptions import SlowSubscriptions
from heliograph.node.kernel import KernelPart
from heliograph.observe.metric import Sample, gauge, plain
from heliograph.parts import Change, Part
from heliograph.settings.records import microseconds

_MEASURED = {"whole": WHOLE, "internal": INTERNAL, "response": RESPONSE}


class SlowSubscriptionsPart(Part):
    """Looks for slow subscriptions while they are enabled; owned by the node.

    Attributes:
        found: Those that were found; empty while they are not enabled.
    """

    name = "slow_subscriptions"
    metrics = (gauge("slow_subscriptions.count", "Slow subscriptions that are listed (`slow_subs`)."),)
    needs = ("kernel",)
    roots = ("slow_subs",)

    def __init__(self, config: Config, kernel: KernelPart) -> None:
        self._settings = config.slow_subs
        self._kernel = kernel
        self.found = self._make(config.slow_subs)

    async def start(self) -> None:
        """Begin to look."""
        self._join()

    async def check(self, new: Config) -> Change | None:
        """Other settings: what was found by those before is forgotten, as EMQX does."""
        settings = new.slow_subs
        return None if settings == self._settings else Change(lambda: self._use(settings))

    def tick(self, uptime_us: int) -> None:
        """Forget those that were not slow for long."""
        self.found.forget_old()

    def samples(self) -> list[Sample]:
        """How many there are."""
        return plain({"slow_subscriptions.count": len(self.found)})

    def _use(self, settings: SlowSubs) -> None:
        self._settings = settings
        self.found = self._make(settings)
        self._join()

    def _join(self) -> None:
        self._kernel.broker.delivery_times = self.found if self._settings.enable else None

    def _make(self, settings: SlowSubs) -> SlowSubscriptions:
        return SlowSubscriptions(
            microseconds(settings.threshold),
            _MEASURED[settings.stats_type],
            settings.top_k_num,
            microseconds(settings.expire_interval),
            lambda: int(self._kernel.broker.now_us),
            self._session_began_us,
        )

    def _session_began_us(self, clientid: str) -> int:
        session = self._kernel.context.sessions.held(clientid)
        return 0 if session is None else int(session.created_at_us)
