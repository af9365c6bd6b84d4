"""Settings of what is stored on disk: `durable_storage`, `durable_sessions`, `durable_shared_groups`."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qs, urlencode, urlsplit

from heliograph.config.kinds import Bind
from heliograph.settings.fields import How, ListOf, list_setting, named_sections, section, section_list, setting
from heliograph.settings.kinds import (
    AnyText,
    Boolean,
    Choice,
    Duration,
    FilterText,
    Integer,
    RefusedError,
    SecretText,
    Size,
    Switch,
    Text,
    Texts,
    Unless,
)
from heliograph.settings.secrets import Secret
from heliograph.settings.tls import ServerTls
from heliograph.settings.units import Address

_KB = 1024
_MB = 1024 * 1024
_DAY = 86400.0
_FILE = AnyText("a file")


# Shorter ones can be guessed.
TOKEN_LENGTH_MIN = 16


# Databases that the broker has of its own; no other can have their names.
RESERVED_NAMES = (
    "bans",
    "built_in_rules",
    "delayed",
    "message_ways",
    "messages",
    "retained",
    "sessions",
    "shared_groups",
)


# What metrics of `messages` begin with (`storage.topics.memory_bytes`), where others have the database's name.
METRIC_NAMES = ("commit_time", "compaction", "offload", "topics")


@dataclass(frozen=True, slots=True)
class LayoutConfig:
    """How a generation keeps its messages; a change takes effect with the next generation."""

    wildcard_thresholds: tuple[int, ...] = list_setting(
        ListOf(Integer(1), at_least=1),
        (100, 10),
        "Different values from which a topic level is taken as a variable, level by level; the last is for the rest.",
    )
    compression: str = setting(Choice("zstd", "lz4", "none"), "zstd", "Compression of stored blocks.")


@dataclass(frozen=True, slots=True)
class CompactionConfig:
    """How small neighbouring blocks are merged in the background, a millisecond or two at a time."""

    enable: bool = setting(Boolean(), True, "Whether small blocks are merged.")
    min_age: float = setting(Duration(), 60.0, "How long a block is left alone: its readers have it in memory.")
    small_messages: int = setting(Integer(1, 512), 16, "A block of more messages is not small.")
    small_bytes: int = setting(Size(1), 8 * _KB, "A block that takes more on the disk is not small.")
    pause: float = setting(Duration(0.001), 0.1, "Between two merges.")
    interval: float = setting(Duration(0.001), 30.0, "Between two rounds, each of which looks at every stream.")


# The options of a place, by the scheme of its URI. None is secret: a place is shown, and kept with the files.
_STORES = {
    "s3": ("endpoint_override", "scheme", "region", "allow_bucket_creation"),
    "gs": ("endpoint_override", "scheme", "project_id"),
    "gcs": ("endpoint_override", "scheme", "project_id"),
    "abfs": ("blob_storage_authority", "dfs_storage_authority", "enable_tls"),
    "abfss": ("blob_storage_authority", "dfs_storage_authority", "enable_tls"),
    "hdfs": ("replication", "buffer_size", "default_block_size", "user", "kerb_ticket"),
    "file": (),
}
_CREDENTIALS = ("access_key", "secret_key", "session_token", "account_key", "sas_token", "access_token")


@dataclass(frozen=True, slots=True)
class OffloadConfig:
    """Closed generations as Parquet files elsewhere, which readers find there."""

    enable: bool = setting(Boolean(), False, "Whether closed generations are offloaded.")
    target: str = setting(
        AnyText(),
        "",
        "Where to: a directory (a relative one lies in `node.data_dir`), or a URI such as `s3://bucket/path`.",
    )
    storage_options: Mapping[str, str] = setting(
        Texts(),
        {},
        "Options of the store that a URI names, in the words of `pyarrow.fs`: of S3 `endpoint_override`, `scheme`, "
        "`region`. Credentials come from the environment.",
    )
    after: float = setting(
        Duration(), _DAY, "How long a generation stays on this disk after it was closed; `retention` goes on for both."
    )
    keep_files: bool = setting(Boolean(), False, "Whether the files stay when the retention of their messages ends.")

    @property
    def place(self) -> str:
        """The target with its options, as one text that says all: every generation keeps it with its files."""
        if not self.storage_options:
            return self.target
        return f"{self.target}{'&' if '?' in self.target else '?'}{urlencode(self.storage_options, safe=':/')}"

    def fault(self) -> tuple[str, str] | None:
        """What is wrong with the place: a setting and a text; None if nothing can be seen."""
        if "://" not in self.target:
            return ("storage_options", "is for a URI, and target is a directory") if self.storage_options else None
        parts = urlsplit(self.target)
        known = _STORES.get(parts.scheme)
        if known is None:
            return "target", f"found {self.target!r}: its scheme must be one of {', '.join(_STORES)}"
        if "@" in parts.netloc and ":" in parts.netloc.rpartition("@")[0]:
            return "target", "has a login, which would be shown: credentials come from the environment"
        for setting_name, names in (("target", parse_qs(parts.query)), ("storage_options", self.storage_options)):
            for name in names:
                if name not in known:
                    listed = ", ".join(known) or "it has none"
                    hint = "; credentials come from the environment" if name in _CREDENTIALS else ""
                    return setting_name, f"has the option {name!r}, but {parts.scheme} takes {listed}{hint}"
        return None


@dataclass(frozen=True, slots=True)
class MessagesConfig:
    topics: tuple[str, ...] = list_setting(
        ListOf(FilterText()),
        ("#",),
        "Topic filters of the messages to store; `#` does not cover topics that start with `$`, and [] stores nothing.",
    )
    n_shards: int = setting(Integer(1, 1024), 1, "Shards of a new database.", how=How.RESTART)
    retention: float | None = setting(
        Unless(Duration(1.0), "infinity"),
        7 * _DAY,
        "How long messages are kept at least; at most one `generation_interval` longer.",
    )
    generation_interval: float | None = setting(
        Unless(Duration(1.0), "infinity"),
        _DAY,
        "How long one generation is written; old messages are removed by whole generations.",
    )
    max_bytes: int | None = setting(
        Unless(Size(_MB), "infinity"),
        None,
        "How large the table files may become before the oldest generation is removed, however young it is.",
    )
    fsync: bool = setting(
        Boolean(), True, "Whether a commit is on the disk, not only with the system, before it is acknowledged."
    )
    max_buffered_bytes: int = setting(Size(64 * _KB), 64 * _MB, "Messages that may wait for their commit, in bytes.")
    layout: LayoutConfig = section(LayoutConfig, "How messages lie on disk.", how=How.RESTART)
    compaction: CompactionConfig = section(CompactionConfig, "Merging of small blocks.")
    offload: OffloadConfig = section(OffloadConfig, "Old messages as Parquet files elsewhere.")


@dataclass(frozen=True, slots=True)
class StateConfig:
    """A database of state: small records that change often."""

    fsync: bool = setting(
        Boolean(), True, "Whether a commit is on the disk, not only with the system, before it counts as done."
    )
    max_buffered_bytes: int = setting(Size(64 * _KB), 64 * _MB, "Changes that may wait for their commit, in bytes.")


@dataclass(frozen=True, slots=True)
class FlightTlsConfig(ServerTls):
    enable: bool = setting(
        Boolean(),
        False,
        "Whether the reader speaks TLS, and nothing else; its key has no password, and with `verify_peer` a client "
        "needs a certificate.",
    )

    def __post_init__(self) -> None:
        ServerTls.__post_init__(self)
        if self.enable and not self.certfile:
            raise RefusedError("enable = true needs certfile: which certificate is to be shown?")


@dataclass(frozen=True, slots=True)
class FlightTokenConfig:
    """A token with which stored messages are read, given as one of `token` and `sha256`."""

    name: str = setting(Text("a name", r"[A-Za-z0-9][A-Za-z0-9_.-]*"), "token", "What people and logs call it.")
    token: Secret = setting(
        SecretText(may_be_empty=True),
        Secret(),
        "Its text, 16 ASCII characters at least.",
    )
    sha256: str = setting(
        Text("64 hexadecimal digits", r"([0-9A-Fa-f]{64})?"),
        "",
        "The SHA-256 digest of its text, in hexadecimal.",
        is_secret=True,
    )
    topics: tuple[str, ...] = list_setting(
        ListOf(FilterText(), at_least=1),
        ("#",),
        "Topic filters that it allows, and filters within these; `#` does not cover topics that start with `$`.",
    )
    user: str = setting(
        AnyText("a user name"),
        "",
        "A user of the built-in database: of the messages that `topics` allow, only those are read whose topics it may "
        "subscribe to. Empty for no user.",
    )
    databases: tuple[str, ...] = list_setting(
        ListOf(Text("the name of a database")), ("messages",), "Databases that it allows."
    )


@dataclass(frozen=True, slots=True)
class FlightConfig:
    """The reader process that serves stored messages over Arrow Flight."""

    enable: bool = setting(Boolean(), True, "Whether the reader process is started.")
    bind: Address = setting(Bind(), Address("127.0.0.1", 8815), "Address and port of the reader.")
    require_token: str = setting(
        Switch("auto"),
        "auto",
        "Whether a request without a token is refused. `auto`: it is; without `tokens` the node makes one for its own "
        "user, and `bind` must be an address that only this machine reaches.",
    )
    tokens: tuple[FlightTokenConfig, ...] = section_list(FlightTokenConfig, "Who may read, and what.")
    tls: FlightTlsConfig = section(
        FlightTlsConfig,
        "TLS of the reader: its key has no password, and with `verify_peer` clients need a certificate.",
    )


@dataclass(frozen=True, slots=True)
class DurableStorageConfig:
    messages: MessagesConfig = section(MessagesConfig, "Stored messages, which durable sessions are served from.")
    databases: Mapping[str, MessagesConfig] = named_sections(
        MessagesConfig, (), "More databases of messages, for example of some topics that are kept longer than others."
    )
    sessions: StateConfig = section(StateConfig, "The state of sessions.")
    shared_groups: StateConfig = section(StateConfig, "How far shared groups are.")
    retained: StateConfig = section(StateConfig, "Retained messages, where `retainer.backend` keeps them on disk.")
    delayed: StateConfig = section(StateConfig, "Delayed messages, where `delayed.storage_type` keeps them on disk.")
    flight: FlightConfig = section(FlightConfig, "Bulk reads over Arrow Flight.")


@dataclass(frozen=True, slots=True)
class DurableSessionsConfig:
    enable: bool = setting(
        Boolean(),
        True,
        "Whether sessions with an expiry interval above zero are kept on the disk, as are the messages for them.",
        how=How.RESTART,
    )
    batch_size: int = setting(Integer(1, 65_536), 512, "Stored messages that a session gets in one turn of a replay.")
    checkpoint_interval: float = setting(
        Duration(0.1),
        1.0,
        "How often the positions of sessions are saved; after a crash, messages at QoS 1 since then are sent again.",
    )


@dataclass(frozen=True, slots=True)
class DeclaredGroup:
    """A group that outlives its members."""

    group: str = setting(
        Text("the name of a shared group, without / + #", r"[^/+#]+"),
        "",
        "Its name: `g` for members that subscribe to `$share/g/...`, `$queue` for those of `$queue/...`.",
    )
    topic: str = setting(FilterText(), "", "Its topic filter, with the mountpoint of its members if they have one.")
    start: str = setting(
        Choice("now", "earliest"),
        "now",
        "Where a new group begins: at its declaration, or at the oldest stored message.",
    )

    def __post_init__(self) -> None:
        missing = [name for name, value in (("group", self.group), ("topic", self.topic)) if not value]
        if len(missing) == 1:
            raise RefusedError(f"a declared group needs {missing[0]} too")


@dataclass(frozen=True, slots=True)
class SharedGroupsConfig:
    """Shared groups with durable members, and those that are declared."""

    enable: bool = setting(
        Boolean(),
        True,
        "Whether groups that a durable session joins get their stored messages from storage.",
        how=How.RESTART,
    )
    declared: tuple[DeclaredGroup, ...] = section_list(
        DeclaredGroup, "Groups that outlive their members.", how=How.RESTART
    )
    checkpoint_interval: float = setting(
        Duration(0.01),
        0.2,
        "How often progress at QoS 0 and 1 is saved; after a crash, messages since then are sent again.",
    )
    stall_timeout: float = setting(
        Duration(0.5), 5.0, "A member that takes nothing of what waits for it for so long gives its share to others."
    )
    revoke_timeout: float = setting(
        Duration(0.5),
        10.0,
        "How long a member may take to acknowledge what it has of a share that others get; then they get that too.",
    )
