"""What an authenticator is, and what it is made with."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from heliograph.access.backends.interface import Backend
from heliograph.access.backends.live import Backends
from heliograph.access.backends.node_cache import NodeCache
from heliograph.access.passwords import PasswordPool
from heliograph.access.users.store import UserStore
from heliograph.broker.authentication import AuthAttempt, AuthStep
from heliograph.broker.client import ClientInfo

# None: it does not know the client, the next one is asked.
Answer = AuthStep | None


class Authenticator:
    """Says who a client is; owned by its chain.

    Attributes:
        id: Mechanism and backend, as `password_based:mysql`.
        backend: What it asks about clients; None without one.
    """

    def __init__(self, id: str) -> None:
        self.id = id
        self.backend: Backend | None = None

    async def start(self) -> None:
        """Make what it needs, before the first client. A backend that cannot be reached is no reason to raise.

        It changes nothing on the disk: its settings may be those of a change that is only planned.
        """
        if self.backend is not None:
            await self.backend.start()

    async def begin(self) -> None:
        """Change what it keeps on the disk as its settings say, which hold from now on.

        Called once after `start`, where the settings are used: not for a change that was only planned, or refused.
        Awaited before the first client when the node starts; beside clients when the settings change, which it may be
        asked about by then.

        Raises:
            Exception: It is not made; the log and the node's status tell it.
        """

    async def stop(self) -> None:
        """End what it owns; it is not asked any more."""
        if self.backend is not None:
            await self.backend.stop()

    def authenticate(self, client: ClientInfo, attempt: AuthAttempt) -> Answer | Awaitable[Answer]:
        """Accept, refuse or challenge a client, or leave it to the next one.

        What it need not wait for it answers at once. One that raises, or does not answer in time, has left it to the
        next one.
        """
        raise NotImplementedError

    def forget(self) -> None:
        """Delete what it keeps on the disk: it is no longer in the configuration, not even switched off."""

    def is_current(self) -> bool:
        """Whether the files that its settings name are as it read them; asked when the configuration is read again."""
        return True

    def health(self) -> str:
        """Why it cannot work now, for people; empty if it can."""
        return "" if self.backend is None else self.backend.health()


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What authenticators are made with.

    Attributes:
        chain: Whose chain it stands in: a listener as `tcp:default`, empty for that of all listeners without their own.
        users: The users of built-in databases.
        passwords: Where slow hashes are checked.
        backends: Those of the node that are in use.
        node_cache: Answers of backends that the node keeps (`authentication_settings.node_cache`).
        clock: Microseconds on the monotonic clock.
        now_s: Seconds since the epoch.
    """

    chain: str
    users: UserStore
    passwords: PasswordPool
    backends: Backends
    node_cache: NodeCache
    clock: Callable[[], int]
    now_s: Callable[[], int]

    def backend_name(self, authenticator: str) -> str:
        """What the backend of an authenticator is called, as `authentication:password_based:mysql`."""
        return ":".join(part for part in ("authentication", self.chain, authenticator) if part)
