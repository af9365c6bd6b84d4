"""What a backend is: a server that is asked about clients, through a `Pool` of connections that a `Connector` opens.

One module for each kind of server has its connector, and a class with the questions that authenticators and sources of
authorization ask. All of them behave alike, since `pool` does the work: a limit of connections, a limit of
questions that wait for one, a deadline for each question, an answer at once while the server is down, and one task that
connects again. A question changes nothing at the server: one whose connection is lost is asked once more.
"""

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

Client = TypeVar("Client")


class BackendError(Exception):
    """A backend did not answer a question; the text is for people and has no secret in it."""


class LostConnectionError(Exception):
    """A connection is of no use any more, where the library has no error of its own for it; the text says why."""


class Backend(Protocol):
    """What an authenticator or a source asks; it starts and stops with it."""

    async def start(self) -> None:
        """Begin to connect."""

    async def stop(self) -> None:
        """Answer what was asked, and close."""

    def health(self) -> str:
        """Why it cannot be asked, for people; empty if it can."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What an error of a library means.

    Attributes:
        text: What is wrong, for people. It may hold neither what a client sent nor a secret; what `Connector.secrets`
            has is taken out of it.
        is_lost: Whether the connection is of no use any more.
    """

    text: str
    is_lost: bool


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """How much a pool takes.

    Attributes:
        questions: Questions that the server is asked at a time; connections, where each takes one.
        waiting: Questions that wait for a connection; those beyond are refused.
        deadline_s: How long a question may take, the wait for a connection and a second try included.
        connect_s: How long opening a connection may take.
        check_s: How often a connection is checked that nothing is asked on.
    """

    questions: int = 8
    waiting: int = 1000
    deadline_s: float = 5.0
    connect_s: float = 5.0
    check_s: float = 15.0


class Connector(Generic[Client]):
    """Opens, checks and closes the connections of one pool; owned by it.

    All methods are called in the event loop and none may block it. `threads` has one for libraries that block.

    Attributes:
        kind: What is connected to, such as `postgresql`.
        server: Where it is, for people, such as `db.example.com:5432`; no user and no password.
        questions_each: How many questions one connection takes at a time.
    """

    kind: str
    server: str
    questions_each: int = 1

    async def open(self) -> Client:
        """A new connection on which a question can be asked; it is cancelled when it takes too long."""
        raise NotImplementedError

    async def close(self, client: Client) -> None:
        """End a connection, also in the middle of a question that was cancelled. What it raises is ignored."""
        raise NotImplementedError

    async def settle(self, client: Client) -> None:
        """Wait until a question that was cancelled has ended at the server, so that the next one can be asked.

        Raises:
            Exception: The connection is to be closed; so it is where a connector knows no better.
        """
        raise LostConnectionError("a question was cancelled")

    async def check(self, client: Client) -> None:
        """Raise if nothing can be asked on a connection; called from time to time while it is not used."""

    def fault(self, error: Exception) -> Fault:
        """What an error means that `open`, `check` or a question has raised."""
        raise NotImplementedError

    def secrets(self) -> tuple[str, ...]:
        """Texts that no error may show: passwords, as they were used last."""
        return ()
