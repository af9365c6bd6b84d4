"""Settings of connectors and actions of the type `mongodb`."""

from dataclasses import dataclass
from typing import Final

from heliograph.config.actions.interface import ActionConfig, RowTemplate, SentTemplate, ServerConnectorConfig, ignored
from heliograph.settings.addresses import ServerAddress, ServerAddresses
from heliograph.settings.fields import optional, required, required_section, section, setting
from heliograph.settings.kinds import Boolean, Choice, Duration, Integer, RefusedError, Text
from heliograph.settings.units import Address

PORT: Final = 27017
_OWN: Final = "the library has limits of its own"


@dataclass(frozen=True, kw_only=True)
class MongodbPlace:
    mongo_type: str = required(Choice("single", "rs", "sharded"), "What there is at the addresses.")
    server: Address | None = optional(ServerAddress(PORT), "Of `single`: where the server is.")
    servers: tuple[str, ...] | None = optional(
        ServerAddresses(), "Of `rs` some members, of `sharded` the routers (mongos)."
    )
    replica_set_name: str | None = optional(Text("a name"), "Of `rs`: the name of the replica set.")
    w_mode: str = ignored(Choice("unsafe", "safe"), "unsafe", "a majority of the members confirms each write")
    r_mode: str = ignored(Choice("master", "slave_ok"), "master", "nothing is read")

    def __post_init__(self) -> None:
        wanted, other = ("server", "servers") if self.mongo_type == "single" else ("servers", "server")
        if getattr(self, other) is not None:
            raise RefusedError(f"is not of mongo_type = {self.mongo_type}", other)
        if getattr(self, wanted) is None:
            raise RefusedError(f"is missing: mongo_type = {self.mongo_type} needs it", wanted)
        if self.mongo_type == "rs" and self.replica_set_name is None:
            raise RefusedError("is missing: mongo_type = rs needs it", "replica_set_name")

    @property
    def all(self) -> tuple[Address, ...]:
        several = map(ServerAddress(PORT).convert, self.servers or ())
        return (self.server,) if self.server is not None else tuple(several)


@dataclass(frozen=True, kw_only=True)
class MongodbTopology:
    """How EMQX's driver keeps its connections."""

    pool_size: int = ignored(Integer(1), 8, "one connection of each action keeps the order of its rows")
    max_overflow: int = ignored(Integer(0), 0, _OWN)
    overflow_ttl: float = ignored(Duration(), 0.0, _OWN)
    overflow_check_period: float = ignored(Duration(), 0.0, _OWN)
    local_threshold_ms: float = ignored(Duration(), 0.0, _OWN)
    connect_timeout_ms: float = ignored(Duration(), 0.0, _OWN)
    socket_timeout_ms: float = ignored(Duration(), 0.0, _OWN)
    server_selection_timeout_ms: float = ignored(Duration(), 0.0, _OWN)
    wait_queue_timeout_ms: float = ignored(Duration(), 0.0, _OWN)
    heartbeat_frequency_ms: float = ignored(Duration(), 200.0, _OWN)
    min_heartbeat_frequency_ms: float = ignored(Duration(), 0.0, _OWN)


@dataclass(frozen=True, kw_only=True)
class MongodbConnectorConfig(ServerConnectorConfig):
    parameters: MongodbPlace = required_section(MongodbPlace, "Where it is.")
    database: str = required(Text("the name of a database"), "The database.")
    auth_source: str = setting(Text("the name of a database"), "admin", "The database that knows the user.")
    srv_record: bool = setting(
        Boolean(), False, "Whether the address is one host whose SRV and TXT records say the rest."
    )
    use_legacy_protocol: str = ignored(
        Choice("auto", "true", "false"), "auto", "servers since MongoDB 4.4 speak the newer one"
    )
    pool_size: int = ignored(Integer(1), 8, "one connection of each action keeps the order of its rows")
    topology: MongodbTopology = section(MongodbTopology, "Accepted as EMQX has it, without a meaning here.")

    def __post_init__(self) -> None:
        if self.srv_record and len(self.servers) > 1:
            raise RefusedError("needs one host, whose records name the servers", "srv_record")

    @property
    def servers(self) -> tuple[Address, ...]:
        return self.parameters.all

    def addresses(self) -> tuple[tuple[str, int], ...]:
        return () if self.srv_record else tuple((each.host, each.port) for each in self.servers)


@dataclass(frozen=True, kw_only=True)
class MongodbParameters:
    collection: str = setting(
        RowTemplate("a template of a collection", r"(?s).*\S.*"), "mqtt", "Template of the collection."
    )
    payload_template: str | None = optional(
        SentTemplate(), "Template of the document, which is a JSON object; without, the row."
    )


@dataclass(frozen=True, kw_only=True)
class MongodbAction(ActionConfig):
    parameters: MongodbParameters = section(MongodbParameters, "The document.")
