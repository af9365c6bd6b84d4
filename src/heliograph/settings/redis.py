"""The settings that say where a Redis is: one server, the primary that sentinels name, or the nodes of a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from heliograph.settings.addresses import ServerAddress, ServerAddresses
from heliograph.settings.fields import optional, setting
from heliograph.settings.kinds import Integer, RefusedError, SecretText, Text, Words
from heliograph.settings.secrets import Secret
from heliograph.settings.tls import ClientTls
from heliograph.settings.units import Address


class RedisType(StrEnum):
    """What there is at the addresses; the words are EMQX's."""

    SINGLE = "single"
    SENTINEL = "sentinel"
    CLUSTER = "cluster"


_PORT: Final = 6379
_SENTINEL_PORT: Final = 26379
# Of each type the settings that it needs, and all that it has.
_KEYS: Final = {
    RedisType.SINGLE: (("server",), ("server", "database")),
    RedisType.SENTINEL: (
        ("servers", "sentinel"),
        ("servers", "sentinel", "database", "sentinel_username", "sentinel_password"),
    ),
    RedisType.CLUSTER: (("servers",), ("servers",)),
}


@dataclass(frozen=True, kw_only=True)
class RedisPlace:
    """Where a Redis is."""

    redis_type: RedisType = setting(
        Words({kind.value: kind for kind in RedisType}), RedisType.SINGLE, "What there is at the addresses."
    )
    address: Address | None = optional(ServerAddress(_PORT), "Of `single`: where the server is.", name="server")
    several: tuple[str, ...] | None = optional(
        ServerAddresses(),
        "Of `sentinel` the sentinels (port 26379), of `cluster` some of its nodes (port 6379).",
        name="servers",
    )
    sentinel: str | None = optional(
        Text("a name"), "Of `sentinel`: the name under which the sentinels know the primary."
    )
    sentinel_username: str | None = optional(Text("a user name"), "The user at the sentinels.")
    sentinel_password: Secret | None = optional(SecretText(), "The password for it.")
    database: int = setting(Integer(0, 1023), 0, "Number of the database; a cluster has none.")

    def __post_init__(self) -> None:
        given = {
            "server": self.address,
            "servers": self.several,
            "sentinel": self.sentinel,
            "database": self.database,
            "sentinel_username": self.sentinel_username,
            "sentinel_password": self.sentinel_password,
        }
        needed, own = _KEYS[self.redis_type]
        for name, value in given.items():
            if value and name not in own:
                raise RefusedError(f"is not for redis_type = {self.redis_type}, which has {', '.join(own)}", name)
            if not value and name in needed:
                raise RefusedError(f"has no {name}, which redis_type = {self.redis_type} needs")

    @property
    def addresses(self) -> tuple[Address, ...]:
        """The server, the sentinels, or some nodes of the cluster."""
        if self.address is not None:
            return (self.address,)
        each = ServerAddress(_SENTINEL_PORT if self.redis_type is RedisType.SENTINEL else _PORT)
        return tuple(map(each.convert, self.several or ()))

    @property
    def place(self) -> str:
        """Where, for people."""
        where = ",".join(map(str, self.addresses))
        if self.redis_type is RedisType.CLUSTER:
            return f"the cluster {where}"
        return f"{self.sentinel} of the sentinels {where}" if self.sentinel else f"{where}/{self.database}"


def connection_arguments(username: str | None, password: str | None, tls: ClientTls | None) -> dict[str, Any]:
    """Login and TLS as arguments of the library `redis`; for its blocking and asynchronous classes."""
    arguments: dict[str, Any] = {"username": username, "password": password}
    if tls is not None:
        arguments |= {
            "ssl": True,
            "ssl_cert_reqs": "required" if tls.verify else "none",
            "ssl_check_hostname": tls.verify,
            "ssl_ca_certs": tls.cacertfile or None,
            "ssl_certfile": tls.certfile or None,
            "ssl_keyfile": tls.keyfile or tls.certfile or None,
        }
    return arguments
