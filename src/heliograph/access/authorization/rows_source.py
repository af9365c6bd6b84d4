"""Sources whose rules are rows of a database: what they have in common."""

import logging
from abc import abstractmethod
from collections.abc import Awaitable, Hashable, Sequence
from typing import Generic, TypeAlias, TypeVar

from heliograph.access.acl.rows import rules_of_rows
from heliograph.access.acl.rules import Rules
from heliograph.access.authorization.interface import RulesSource, SourceSurroundings
from heliograph.broker.client import ClientInfo
from heliograph.observe.bounded_log import BoundedLog

_log = logging.getLogger(__name__)

Question = TypeVar("Question", bound=Hashable)
Rows: TypeAlias = Sequence[object]


class RowsSource(RulesSource, Generic[Question]):
    """Gives the rules of rows, in their order; a row that is no rule is logged and left out."""

    def __init__(self, type: str, surroundings: SourceSurroundings) -> None:
        super().__init__(type)
        self._answers = surroundings.node_cache.answers()
        self._bad_rows = BoundedLog(_log, surroundings.clock)

    @abstractmethod
    def question(self, client: ClientInfo) -> Question:
        """Clients with the same question have the same rules. `TemplateError` if a value cannot be asked about."""

    @abstractmethod
    async def rows(self, question: Question) -> Rows:
        """`BackendError` without an answer."""

    def fetch(self, client: ClientInfo) -> Rules | Awaitable[Rules]:
        question = self.question(client)
        kept = self._answers.find(question)
        return self._fetched(question) if kept is None else self._rules(kept.answer)

    async def _fetched(self, question: Question) -> Rules:
        return self._rules(await self._answers.answer(question, lambda: self.rows(question)))

    def _rules(self, rows: Rows) -> Rules:
        return rules_of_rows(rows, lambda fault: self._bad_rows.warn("%s: %s; it is left out", self.type, fault))
