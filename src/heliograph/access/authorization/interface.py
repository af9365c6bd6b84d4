"""What a source of authorization is, and what it is made with."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import ClassVar

from heliograph.access.acl.rules import Rule, Rules
from heliograph.access.backends.interface import Backend
from heliograph.access.backends.live import Backends
from heliograph.access.backends.node_cache import NodeCache
from heliograph.access.built_in_rules.store import BuiltInRules
from heliograph.broker.actions import Action
from heliograph.broker.client import ClientInfo


class AuthorizationSource:
    """Says what clients may do; owned by the chain. Its class is a `RulesSource` or an `AskedSource`.

    Attributes:
        type: Its type, as `mysql`.
        backend: What it asks about clients; None without one.
    """

    def __init__(self, type: str) -> None:
        self.type = type
        self.backend: Backend | None = None

    @property
    def has_rules(self) -> bool:
        """Whether there is anything to ask it; known from its start on."""
        return True

    async def start(self) -> None:
        """Make what it needs, before the first question. A backend that cannot be reached is no reason to raise."""
        if self.backend is not None:
            await self.backend.start()

    async def stop(self) -> None:
        """End what it owns; it is not asked any more."""
        if self.backend is not None:
            await self.backend.stop()

    def is_current(self) -> bool:
        """Whether the files that its settings name are as it read them; asked when the configuration is read again."""
        return True

    def place_of(self, rule: Rule, client: ClientInfo) -> str:
        """Where a rule stands that it gave for a client, for people; empty if that is not known."""
        return ""

    def health(self) -> str:
        """Why it cannot work now, for people; empty if it can."""
        return "" if self.backend is None else self.backend.health()


class RulesSource(AuthorizationSource):
    """Gives the rules for a client, from which its messages are answered in memory.

    Attributes:
        announces_changes: Whether it calls `on_change` when rules that it gave do not hold any more. The rules of
            others are fetched again after `authorization.cache.ttl`.
        on_change: Called when rules that it gave do not hold any more; set by the chain.
    """

    announces_changes: ClassVar[bool] = False

    def __init__(self, type: str) -> None:
        super().__init__(type)
        self.on_change: Callable[[], object] = lambda: None

    def fetch(self, client: ClientInfo) -> Rules | Awaitable[Rules]:
        """The rules for a client, in the order in which they are tried.

        What needs no waiting is answered at once. One that raises counts as `error`: rules that it gave the client
        before stay until it works again, and without any the next source is asked.
        """
        raise NotImplementedError(type(self).__name__)


class AskedSource(AuthorizationSource):
    """Decides on each action itself; the client waits for it unless the decision is cached."""

    def ask(self, client: ClientInfo, action: Action, topic: str) -> str | Awaitable[str]:
        """`allow`, `deny`, `ignore` or `nomatch`; one that raises counts as `error`, and the next source is asked."""
        raise NotImplementedError(type(self).__name__)


@dataclass(frozen=True, slots=True)
class SourceSurroundings:
    """What sources are made with.

    Attributes:
        backends: The connections of the node to servers, to be joined when a source starts.
        clock: Microseconds on the monotonic clock.
        node_cache: The answers of backends that the node keeps (`authorization.node_cache`).
        built_in_rules: The rules of the built-in database.
    """

    backends: Backends
    clock: Callable[[], int]
    node_cache: NodeCache
    built_in_rules: BuiltInRules
