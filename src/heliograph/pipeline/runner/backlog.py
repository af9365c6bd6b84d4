"""Counts the rows that wait for each action, also while its target is away and no batch ends."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from threading import Event
from typing import Final

from heliograph.pipeline.datasource.client import Positions, StorageClient
from heliograph.pipeline.datasource.offsets import Offset
from heliograph.pipeline.errors import DatabaseAbsentError, PipelineError
from heliograph.pipeline.runner.settings import RunnerSettings
from heliograph.pipeline.runner.worker import ActionWorker

_log = logging.getLogger(__name__)

_LOOK_S: Final = 1.0
#: The reader counts the messages of a stream, other topics among them. So many are looked at in one go.
_COUNTED_MAX: Final = 100_000
_STORED_AT: Final = "stored_at"


@dataclass(frozen=True, slots=True)
class _Counted:
    """The rows from what an action has reached to some positions."""

    reached: Offset
    positions: Positions
    rows: int


class RunnerBacklog:
    """What waits for the actions of a runner; owned by it, and used by one thread.

    Each row is looked at once while its action stands still. Where very many wait, rows of other actions in the same
    streams may be among them.
    """

    def __init__(self, workers: Callable[[], Iterable[ActionWorker]]) -> None:
        self._workers = workers
        self._counted: dict[str, _Counted] = {}

    def __repr__(self) -> str:
        return f"RunnerBacklog({len(self._counted)} actions)"

    def run(self, settings: RunnerSettings, ending: Event) -> None:
        """Count every second, until an event is set."""
        with StorageClient(settings.endpoint, token=settings.token, tls_ca=settings.tls_ca) as client:
            while not ending.wait(_LOOK_S):
                self.look(client)

    def look(self, client: StorageClient) -> None:
        """Count for each action of which rows may wait."""
        workers = {worker.action.query: worker for worker in self._workers()}
        self._counted = {query: counted for query, counted in self._counted.items() if query in workers}
        for query, worker in workers.items():
            reached = worker.reached
            if reached is None:
                continue
            try:
                worker.figures.lag = self._count(client, worker, query, reached)
            except DatabaseAbsentError:
                worker.figures.lag = 0  # it appears with its first message
            except PipelineError as error:
                self._counted.pop(query, None)
                worker.figures.lag = None
                _log.debug("what waits for %s is not known: %s", query, error)

    def _count(self, client: StorageClient, worker: ActionWorker, query: str, reached: Offset) -> int:
        known = self._counted.get(query)
        if known is None or known.reached != reached:
            known = _Counted(reached, reached["streams"], 0)
        selection = worker.selected(reached)
        plan = client.plan(selection, known.positions)
        if plan.messages > _COUNTED_MAX:
            return known.rows + plan.messages
        rows = known.rows
        for stream, step in plan.streams.items():
            if step.messages:
                begin = known.positions.get(stream, "")
                chunks = client.read(selection, stream, begin, step.position, [_STORED_AT])
                rows += sum(chunk.num_rows for chunk in chunks)
        self._counted[query] = _Counted(reached, {**known.positions, **plan.positions()}, rows)
        return rows
