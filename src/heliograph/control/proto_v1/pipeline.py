"""The pipeline beside a node: what is asked of it, and answers."""

import msgspec


class PipelineQuery(msgspec.Struct, frozen=True):
    """A query of the pipeline, as its driver wrote of it last.

    Attributes:
        lag: Messages that it has yet to read; None where that is not known.
        figures: All that the driver says.
    """

    name: str
    state: str
    lag: int | None
    last_error: str
    figures: dict[str, object]


class PipelineStatus(msgspec.Struct, frozen=True):
    """The pipeline.

    Attributes:
        is_enabled: Whether the node is to run one.
        pid: Of the driver; None while it does not run.
        restarts: How often it was started again.
        failures: How often it ended by itself.
        told: What cannot be told now, and why; empty for nothing.
    """

    is_enabled: bool
    pid: int | None
    file: str
    log_file: str
    restarts: int
    failures: int
    queries: list[PipelineQuery]
    told: str
