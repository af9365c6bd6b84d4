"""How far a query is behind: the messages of its topics that are stored and not read yet."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow.compute as pc

from heliograph.pipeline.datasource.client import ReadPlan
from heliograph.pipeline.datasource.endpoints import Endpoints
from heliograph.pipeline.datasource.offsets import initial_offset
from heliograph.pipeline.datasource.options import SourceOptions
from heliograph.pipeline.running.starts import storage_readers
from heliograph.pipeline.running.views import ViewInput

#: The reader counts the messages of a stream, other topics among them. So many are looked at, some 0.1 s of its work.
_COUNTED_MAX: Final = 100_000
_STORED_AT: Final = "stored_at"


@dataclass(frozen=True)
class Lag:
    """What an input has yet to read.

    Attributes:
        messages: How many; where there are very many, with those of other topics in the same streams.
        oldest: When the first was stored, in microseconds since the epoch; None for none, or unknown.
    """

    messages: int
    oldest: int | None = None


def lag_of(messages: ViewInput, reached: Mapping[str, str] | None) -> Lag:
    """What an input has yet to read after the positions that it reached; none where it begins.

    Raises:
        PipelineError: The reader cannot be asked.
    """
    options = SourceOptions.of(messages.options)
    began = initial_offset(messages.options["start"])
    selection = options.selection(began.get("start"))
    positions = reached or began["streams"]
    with storage_readers(messages.options) as readers:
        plan = readers.plan(selection, positions)
        if not plan.messages or plan.messages > _COUNTED_MAX:
            return Lag(plan.messages)
        return _counted(readers, options, plan, positions, began.get("start"))


def _counted(
    readers: Endpoints, options: SourceOptions, plan: ReadPlan, positions: Mapping[str, str], start: int | None
) -> Lag:
    count, oldest = 0, None
    known = readers.named(positions)
    for stream, step in plan.streams.items():
        endpoint, own = readers.locate(stream)
        if not step.messages:
            continue
        with options.connect(endpoint) as client:
            for batch in client.read(options.selection(start), own, known.get(stream, ""), step.position, [_STORED_AT]):
                count += batch.num_rows
                first = pc.min(batch.column(_STORED_AT)).cast("int64").as_py()
                oldest = first if oldest is None else min(oldest, first)
    return Lag(count, oldest)
