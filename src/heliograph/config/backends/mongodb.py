"""The settings of a connection to MongoDB, and the filter that finds documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NoReturn

from heliograph.hocon.values import Content, Node, Plain, to_plain
from heliograph.settings.addresses import ServerAddress, ServerAddresses
from heliograph.settings.fields import optional, optional_section, required, setting
from heliograph.settings.kinds import Boolean, Duration, Integer, Kind, RefusedError, SecretText, Text, Words
from heliograph.settings.secrets import Secret
from heliograph.settings.tls import ClientTls
from heliograph.settings.units import Address

PORT: Final = 27017
# What stands below these is not compared as it is, but read as a pattern, a program, an expression or words.
_NOT_COMPARED: Final = ("$regex", "$where", "$expr", "$function", "$accumulator", "$text", "$jsonSchema")
_PLACEHOLDER: Final = "${"


class MongoType(StrEnum):
    """What there is at the addresses; the words are EMQX's."""

    SINGLE = "single"
    REPLICA_SET = "rs"
    SHARDED = "sharded"


class MongoFilter(Kind[Mapping[str, Plain]]):
    """Which documents are asked for: an object in MongoDB's language, whose texts may have placeholders."""

    expected = 'an object, as in { username = "${username}" }'

    def read(self, node: Node) -> Mapping[str, Plain]:
        found = to_plain(node)
        if not isinstance(found, dict):
            raise RefusedError
        _refuse_programs(found)
        return found


class Unsupported(Kind[None]):
    """A setting of EMQX that there is not here; `why` is a sentence."""

    expected = "nothing"

    def __init__(self, why: str) -> None:
        self._why = why

    def convert(self, value: Content) -> NoReturn:
        raise RefusedError(self._why)

    def plain(self, value: None) -> None: ...


@dataclass(frozen=True, kw_only=True)
class MongoConnection:
    """Where a MongoDB is, and what is asked there."""

    mongo_type: MongoType = setting(
        Words({kind.value: kind for kind in MongoType}), MongoType.SINGLE, "What there is at the addresses."
    )
    address: Address | None = optional(ServerAddress(PORT), "Of `single`: where the server is.", name="server")
    several: tuple[str, ...] | None = optional(
        ServerAddresses(), "Of `rs` some members, of `sharded` the routers (mongos).", name="servers"
    )
    replica_set_name: str | None = optional(Text("a name"), "Of `rs`: the name of the replica set.")
    r_mode: bool = setting(
        Words({"master": False, "slave_ok": True}), False, "Of `rs`: whether secondaries are asked too (`slave_ok`)."
    )
    srv_record: bool = setting(
        Boolean(), False, "Whether `server` or `servers` is one host whose SRV and TXT records say the rest."
    )
    database: str = required(Text("a name"), "The database.")
    username: str | None = optional(Text("a user name"), "Who connects.")
    password: Secret | None = optional(SecretText(), "The password for it.")
    auth_source: str = setting(Text("a name"), "admin", "The database that knows this user.")
    pool_size: int = setting(Integer(1, 1000), 8, "Questions at a time.")
    query_timeout: float = setting(Duration(0.001), 5.0, "How long an answer may take.")
    tls: ClientTls | None = optional_section(ClientTls, "TLS to the servers.", name="ssl", has_switch=True)
    collection: str = required(Text("a name"), "The collection.")
    filter: Mapping[str, Plain] = setting(
        MongoFilter(),
        {},
        "Which documents, in MongoDB's language. Its texts may have placeholders, its names may not.",
    )
    w_mode: None = optional(
        Unsupported("there is no w_mode, since nothing is written: leave it out"), "Not supported: nothing is written."
    )
    use_legacy_protocol: None = optional(
        Unsupported("servers before MongoDB 4.4 are not supported: leave use_legacy_protocol out"),
        "Not supported: servers since MongoDB 4.4 speak the newer one.",
    )
    topology: None = optional(
        Unsupported("there is no topology: pool_size and query_timeout say what it said"),
        "Not supported: `pool_size` and `query_timeout` say what it said.",
    )

    def __post_init__(self) -> None:
        is_single = self.mongo_type is MongoType.SINGLE
        if is_single and (self.several or self.address is None):
            raise RefusedError(
                "mongo_type = single needs server, and has no servers", "servers" if self.several else ""
            )
        if not is_single and (self.address or self.several is None):
            raise RefusedError(
                f"mongo_type = {self.mongo_type} needs servers, and has no server", "server" if self.address else ""
            )
        if (self.mongo_type is MongoType.REPLICA_SET) != (self.replica_set_name is not None):
            raise RefusedError("replica_set_name is needed for mongo_type = rs, and only there", "replica_set_name")
        if self.tls is not None and self.tls.keyfile:
            raise RefusedError("has no keyfile: the library reads the key from certfile", "ssl")
        if self.srv_record and len(self.several or "1") != 1:
            raise RefusedError("with srv_record there is one host, whose records name the servers", "servers")

    @property
    def addresses(self) -> tuple[Address, ...]:
        """The server, some members of the replica set, or the routers."""
        if self.address is not None:
            return (self.address,)
        return tuple(map(ServerAddress(PORT).convert, self.several or ()))

    @property
    def place(self) -> str:
        return ",".join(map(str, self.addresses)) + f"/{self.database}"


def _refuse_programs(found: Mapping[str, Plain]) -> None:
    """Refuse placeholders where a value would be read as more than a text."""
    pending: list[tuple[Plain, str]] = [(dict(found), "")]
    while pending:
        value, below = pending.pop()
        if isinstance(value, dict):
            if any(_PLACEHOLDER in name for name in value):
                raise RefusedError("names of fields may have no placeholders, only what they are compared with")
            pending += [(each, name if name in _NOT_COMPARED else below) for name, each in value.items()]
        elif isinstance(value, list):
            pending += [(each, below) for each in value]
        elif isinstance(value, str) and below and _PLACEHOLDER in value:
            raise RefusedError(f"{below} may have no placeholders: what a client sends would be read as its language")
