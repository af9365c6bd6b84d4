"""What the events of live streams have, by their names."""

from typing import Literal, NotRequired, TypeAlias

from typing_extensions import TypedDict

Counts: TypeAlias = dict[str, float | None]


class BrokerRates(TypedDict):
    """What happens in a second; null at the first look."""

    received: float | None
    sent: float | None
    bytes_received: float | None
    bytes_sent: float | None
    connected: float | None
    disconnected: float | None
    persisted: float | None
    dropped: float | None


class BrokerNumbers(TypedDict):
    """What a broker or a node has and does.

    Attributes:
        drops: Messages in a second that a receiver, or all of them, did not get, by reason.
        longest_turn_s: The longest turn of the event loop of the last seconds.
        memory_limit_bytes: 0 for none.
    """

    connections: int
    sessions: int
    subscriptions: int
    topics: int
    retained: int
    alarms: int
    rates: BrokerRates
    drops: Counts
    longest_turn_s: float
    memory_bytes: int
    memory_limit_bytes: int


class NodeInShort(TypedDict):
    """A node; one that does not answer has no numbers.

    Attributes:
        cpu_percent: 100 is one core; null at the first look.
        memory_stage: Of the memory contract; 0 while memory is not short.
    """

    node: str
    answers: bool
    uptime_s: NotRequired[int]
    connections: NotRequired[int]
    sessions: NotRequired[int]
    received: NotRequired[float | None]
    sent: NotRequired[float | None]
    cpu_percent: NotRequired[float | None]
    longest_turn_s: NotRequired[float]
    memory_bytes: NotRequired[int]
    memory_limit_bytes: NotRequired[int]
    memory_stage: NotRequired[int]


class OverviewEvent(BrokerNumbers):
    """The sums over nodes, and each node in short.

    Attributes:
        at: Milliseconds since the epoch.
    """

    at: int
    nodes: list[NodeInShort]


class LiveDatabase(TypedDict):
    """A database of a node."""

    database: str
    is_open: float
    last_commit_s: float
    buffered_bytes: float
    bytes: float
    streams: float
    generations: float
    stalls: float
    refused_messages: float
    commits_rate: float | None
    messages_rate: float | None


class LiveReader(TypedDict):
    """The storage reader of a node."""

    is_running: int
    restarts: int
    damaged_places: int


class LiveListener(TypedDict):
    """A listener of a node."""

    type: str
    name: str
    connections: int


class WholeNode(BrokerNumbers):
    """A node that answers, with its storage and listeners."""

    node: str
    answers: Literal[True]
    uptime_s: int
    received: float | None
    sent: float | None
    cpu_percent: float | None
    memory_stage: int
    storage: list[LiveDatabase]
    reader: LiveReader
    listeners: list[LiveListener]


class SilentNode(TypedDict):
    """A node that does not answer."""

    node: str
    answers: Literal[False]


class NodeEvent(TypedDict):
    """All nodes.

    Attributes:
        at: Milliseconds since the epoch.
    """

    at: int
    nodes: list[WholeNode | SilentNode]


class LiveRule(TypedDict):
    """A rule: its counts, and how much each grows in a second.

    Attributes:
        last_error_at: Microseconds since the epoch; 0 for never.
    """

    enable: bool
    last_error: str
    last_error_at: int
    matched: int
    matched_rate: float | None
    passed: int
    passed_rate: float | None
    failed: int
    failed_rate: float | None
    failed_exception: int
    failed_exception_rate: float | None
    failed_no_result: int
    failed_no_result_rate: float | None
    actions_success: int
    actions_success_rate: float | None
    actions_failed: int
    actions_failed_rate: float | None


class OpenAlarm(TypedDict):
    """An alarm that goes on.

    Attributes:
        activate_at: Milliseconds since the epoch.
    """

    node: str
    name: str
    message: str
    details: dict[str, object]
    activate_at: int


class QueryFiguresObject(TypedDict, total=False):
    """What the driver of the pipeline says of a query."""

    batches: int
    batch_ms: float
    last_batch_at: str | None
    rows_read: int
    rows_written: int
    rows_failed: int
    rows_refused: int
    rows_late: int
    late_kept: int
    dead_letters: int
    restarts: int
    target: str
    guarantee: str
    sink_figures: dict[str, int]


class LiveQuery(QueryFiguresObject):
    """A query of the pipeline with its figures.

    Attributes:
        lag: Messages that it has yet to read; null where that is not known.
    """

    name: str
    state: str
    lag: int | None
    last_error: str | None


class PipelineEvent(TypedDict):
    """The driver of the pipeline and its queries; see `heliograph/pipeline`."""

    enable: bool
    is_running: bool
    restarts: int
    failures: int
    note: str
    queries: list[LiveQuery]


class LiveLogEntry(TypedDict):
    """An entry of the log."""

    number: int
    at: str
    level: str
    logger: str
    text: str
    error: str


class LiveState(TypedDict):
    """Whether something works; actions, authenticators and sources have what they counted, too."""

    enable: bool
    status: str
    status_reason: NotRequired[str]
    metrics: NotRequired[dict[str, float]]


class LivePolicy(TypedDict):
    """A validation or transformation: its counts, and how much each grows in a second."""

    enable: bool
    matched: NotRequired[int]
    matched_rate: NotRequired[float | None]
    succeeded: NotRequired[int]
    succeeded_rate: NotRequired[float | None]
    failed: NotRequired[int]
    failed_rate: NotRequired[float | None]


class RulesEvent(TypedDict):
    """Rules by their ids."""

    count: int
    rules: dict[str, LiveRule]


class AlarmsEvent(TypedDict):
    """The alarms that go on, the newest first."""

    count: int
    alarms: list[OpenAlarm]


class LogEvent(TypedDict):
    """The entries that came since the last look."""

    last: int
    entries: list[LiveLogEntry]


class ConfigurationEvent(TypedDict):
    """The present revision, and until when it is on trial."""

    revision: int
    confirm_until: str | None


class ConnectorsEvent(TypedDict):
    """Connectors by their ids."""

    count: int
    connectors: dict[str, LiveState]


class ActionsEvent(TypedDict):
    """Actions by their ids."""

    count: int
    actions: dict[str, LiveState]


class AuthenticationEvent(TypedDict):
    """Authenticators by their ids."""

    count: int
    authentication: dict[str, LiveState]


class AuthorizationEvent(TypedDict):
    """Sources by their types."""

    count: int
    authorization: dict[str, LiveState]


class ValidationsEvent(TypedDict):
    """Validations by their names."""

    count: int
    schema_validations: dict[str, LivePolicy]


class TransformationsEvent(TypedDict):
    """Transformations by their names."""

    count: int
    message_transformations: dict[str, LivePolicy]


class LiveFailure(TypedDict):
    """A subject that cannot be looked at now."""

    of: str
    code: str
    message: str


class LiveEnd(TypedDict):
    """Why a stream ends."""

    code: str
    message: str


class LiveEvents(TypedDict):
    """Events by their names: those of subjects, `failed` and `end`."""

    overview: OverviewEvent
    node: NodeEvent
    rules: RulesEvent
    alarms: AlarmsEvent
    pipeline: PipelineEvent
    log: LogEvent
    configuration: ConfigurationEvent
    connectors: ConnectorsEvent
    actions: ActionsEvent
    authentication: AuthenticationEvent
    authorization: AuthorizationEvent
    schema_validations: ValidationsEvent
    message_transformations: TransformationsEvent
    failed: LiveFailure
    end: LiveEnd
