"""What databases and directories have in common: a question is made of a client's values, rows answer it."""

from collections.abc import Hashable, Sequence
from typing import Any, Generic, TypeVar

from heliograph.access.backends.interface import Client, Connector, PoolLimits
from heliograph.access.backends.live import Backends
from heliograph.access.backends.pool import Pool
from heliograph.access.templates import Values

Question = TypeVar("Question", bound=Hashable)


class AccessStore(Generic[Client, Question]):
    """A server with what it is asked about each client; owned by an authenticator or a source.

    Attributes:
        names: The placeholders in what is asked.
    """

    names: Sequence[str]

    def __init__(self, name: str, connector: Connector[Client], limits: PoolLimits, backends: Backends) -> None:
        self.pool: Pool[Client] = Pool(name, connector, limits, backends)

    def question(self, values: Values) -> Question:
        """Equal questions have equal answers. `TemplateError` if a value cannot be asked about."""
        raise NotImplementedError

    async def rows(self, question: Question) -> Sequence[Any]:
        """Rows, documents or the fields of a hash by their names, or entries of a directory; raises `BackendError`."""
        raise NotImplementedError
