"""Settings of `authentication`: the authenticators that are asked about a client, one after the other."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, ClassVar, Final

from heliograph.config.backends.http import HttpRequest
from heliograph.config.backends.ldap import ATTRIBUTE, LdapConnection
from heliograph.config.backends.mongodb import MongoConnection
from heliograph.config.backends.node_cache import NodeCacheConfig
from heliograph.config.backends.redis import RedisCommand, RedisCommandText, RedisConnection
from heliograph.config.backends.sql import QUERY, MysqlConnection, PostgresqlConnection
from heliograph.config.passwords import PasswordHashAlgorithm, PasswordThreads
from heliograph.hocon.values import Content
from heliograph.settings.fields import (
    ListOfVariants,
    optional,
    optional_section,
    required,
    section,
    section_list,
    setting,
)
from heliograph.settings.kinds import (
    AnyText,
    Boolean,
    Choice,
    Duration,
    Integer,
    Kind,
    RefusedError,
    SecretText,
    Text,
    Texts,
)
from heliograph.settings.secrets import Secret
from heliograph.settings.tls import ClientTls

_TAGS: Final = ("mechanism", "backend")
_BACKEND: Final = "built_in_database"
_ON_CHANGE: Final = "Whether clients of a user lose their connection when its password changes or it is deleted."
_TIMES: Final = ("exp", "iat", "nbf")  # checked by themselves


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthenticatorConfig:
    """One authenticator; its class adds `mechanism` and, where there is one, `backend`, of one valid word each.

    Attributes:
        maker: The module that makes one of settings; loaded when it is needed.
    """

    maker: ClassVar[str]
    enable: bool = setting(Boolean(), True, "Whether it is asked.")
    precondition: str = setting(
        AnyText("a variform expression"),
        "",
        "Only clients for which this renders `true` are asked about; empty for all.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltInDatabaseConfig(AuthenticatorConfig):
    """Users with passwords, which `heliograph ctl users` adds."""

    maker = "built_in_database"
    mechanism: str = setting(Choice("password_based"), "password_based", "Which authenticator it is.")
    backend: str = setting(Choice(_BACKEND), _BACKEND, "Where it looks.")
    user_id_type: str = setting(Choice("username", "clientid"), "username", "What users are known by.")
    password_hash_algorithm: PasswordHashAlgorithm = section(
        PasswordHashAlgorithm,
        "How passwords are hashed that are set from now on, and how imported hashes are checked.",
    )
    bootstrap_file: str = setting(
        AnyText("a .csv or .json file, or empty"),
        "",
        "Users that are added when the node starts and when this authenticator changes; those that are there stay as "
        "they are. Relative to the working directory.",
    )
    bootstrap_type: str = setting(
        Choice("plain", "hash"), "plain", "Whether that file holds passwords or hashes of them."
    )
    disconnect_on_user_change: bool = setting(Boolean(), False, _ON_CHANGE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramConfig(AuthenticatorConfig):
    """Users who prove that they know their password without sending it (MQTT 5)."""

    maker = "scram"
    mechanism: str = setting(Choice("scram"), "scram", "Which authenticator it is.")
    backend: str = setting(Choice(_BACKEND), _BACKEND, "Where it looks.")
    algorithm: str = setting(
        Choice("sha256", "sha512"), "sha256", "The hash function; the method is SCRAM-SHA-256 or SCRAM-SHA-512."
    )
    iteration_count: int = setting(
        Integer(1, 10_000_000), 4096, "Iterations for passwords that are set from now on; each user keeps its own."
    )
    disconnect_on_user_change: bool = setting(Boolean(), False, _ON_CHANGE)


class Expressions(Kind[tuple[str, ...]]):
    expected = "a variform expression, or a list of them"

    def convert(self, value: Content) -> tuple[str, ...]:
        texts = [item.value for item in value] if isinstance(value, list) else [value]
        expressions = tuple(text for text in texts if isinstance(text, str) and text.strip())
        if not expressions or len(expressions) != len(texts):
            raise RefusedError
        return expressions


@dataclass(frozen=True, slots=True, kw_only=True)
class CinfoCheck:
    is_match: tuple[str, ...] = required(Expressions(), "Variform expressions, all of which must render `true`.")
    result: str = required(Choice("allow", "deny", "ignore"), "What it decides then.")


@dataclass(frozen=True, slots=True, kw_only=True)
class CinfoConfig(AuthenticatorConfig):
    maker = "cinfo"
    mechanism: str = setting(Choice("cinfo"), "cinfo", "Which authenticator it is.")
    checks: tuple[CinfoCheck, ...] = section_list(CinfoCheck, "Checks; the first that fits decides.")

    def __post_init__(self) -> None:
        if not self.checks:
            raise RefusedError("checks needs at least one")


@dataclass(frozen=True, slots=True, kw_only=True)
class GssapiConfig(AuthenticatorConfig):
    """Tickets of Kerberos, in enhanced authentication."""

    maker = "gssapi"
    mechanism: str = setting(Choice("gssapi"), "gssapi", "Which authenticator it is, with `backend`.")
    backend: str = setting(Choice("kerberos"), "kerberos", "Which system gives the tickets.")
    principal: str = required(
        Text("a principal, as in mqtt/host.example.com@EXAMPLE.COM", r"[^/@\s]+/[^/@\s]+@[^/@\s]+"),
        "The name of the node, for which clients get their tickets.",
    )
    keytab_file: str = setting(AnyText("a file"), "", "The file with its keys; empty for the system's keytab.")
    request_timeout: float = setting(Duration(0.001), 5.0, "How long a step of the exchange may take.")
    max_waiting: int = setting(Integer(1, 100_000), 1000, "Steps that may wait for others; what comes then is refused.")

    def __post_init__(self) -> None:
        if find_spec("gssapi") is None:
            raise RefusedError(
                "gssapi needs a library that is not installed: pip install 'heliograph[kerberos]', which builds with "
                "the headers of Kerberos (Debian: libkrb5-dev)"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpConfig(AuthenticatorConfig, HttpRequest):
    """An HTTP service says whether a client may connect."""

    maker = "http"
    mechanism: str = setting(Choice("password_based"), "password_based", "Which authenticator it is.")
    backend: str = setting(Choice("http"), "http", "Which authenticator it is.")
    request_timeout: float = setting(Duration(0.001), 5.0, "How long an answer may take.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramHttpConfig(AuthenticatorConfig, HttpRequest):
    """An HTTP service has the keys of users for SCRAM."""

    maker = "scram_http"
    mechanism: str = setting(Choice("scram"), "scram", "Which authenticator it is.")
    backend: str = setting(Choice("http"), "http", "Which authenticator it is.")
    algorithm: str = setting(
        Choice("sha256", "sha512"), "sha256", "The hash of the method: SCRAM-SHA-256 or SCRAM-SHA-512."
    )
    iteration_count: int = setting(Integer(1), 4096, "The iterations of the keys that the service has.")
    request_timeout: float = setting(Duration(0.001), 5.0, "How long an answer may take.")


@dataclass(frozen=True, slots=True)
class LdapMethod:
    type: str = setting(
        Choice("hash", "bind"),
        "hash",
        "`hash`: the entry has the hash of the password; `bind`: the server is asked to log in as the entry.",
    )
    password_attribute: str | None = optional(
        ATTRIBUTE, "Of `hash`: where the entry has the hash. Default: userPassword."
    )
    is_superuser_attribute: str = setting(
        ATTRIBUTE, "isSuperuser", "Where the entry says whether the user may do everything."
    )
    bind_password: str | None = optional(
        Text("a text, as in ${password}"),
        "Of `bind`: what is sent as the password; may have placeholders. Default: ${password}.",
    )

    def __post_init__(self) -> None:
        for name, owner in (("password_attribute", "hash"), ("bind_password", "bind")):
            if getattr(self, name) is not None and self.type != owner:
                raise RefusedError(f"the method {self.type} has no {name}, only {owner} has", name)


@dataclass(frozen=True, kw_only=True)
class LdapAuthenticatorConfig(AuthenticatorConfig, LdapConnection):
    maker = "ldap"
    mechanism: str = setting(Choice("password_based"), "password_based", "Which authenticator it is, with `backend`.")
    backend: str = setting(Choice("ldap"), "ldap", "Where the users are.")
    method: LdapMethod = section(LdapMethod, "How a password is checked.")
    publish_attribute: str | None = optional(
        ATTRIBUTE, "Where the entry has topics that the client may publish to; its rights are kept with the client."
    )
    subscribe_attribute: str | None = optional(ATTRIBUTE, "Where it has topics that the client may subscribe to.")
    all_attribute: str | None = optional(ATTRIBUTE, "Where it has topics for both.")
    acl_rule_attribute: str | None = optional(ATTRIBUTE, "Where it has rules, each a JSON object.")
    acl_ttl_attribute: str | None = optional(
        ATTRIBUTE, "Where it has how long these rights hold after the login, as in `30m`; without, they always do."
    )


@dataclass(frozen=True, kw_only=True)
class MongoAuthenticatorConfig(AuthenticatorConfig, MongoConnection):
    maker = "stored_user"
    mechanism: str = setting(Choice("password_based"), "password_based", "Which authenticator it is, with `backend`.")
    backend: str = setting(Choice("mongodb"), "mongodb", "Where the users are.")
    password_hash_field: str = setting(Text("the name of a field"), "password_hash", "Where a document has the hash.")
    salt_field: str = setting(Text("the name of a field"), "salt", "Where it has the salt.")
    is_superuser_field: str = setting(
        Text("the name of a field"), "is_superuser", "Where it says whether the user may do everything."
    )
    password_hash_algorithm: PasswordHashAlgorithm = section(PasswordHashAlgorithm, "How the passwords are hashed.")


@dataclass(frozen=True, kw_only=True)
class RedisAuthenticatorConfig(AuthenticatorConfig, RedisConnection):
    maker = "stored_user"
    mechanism: str = setting(Choice("password_based"), "password_based", "Which authenticator it is, with `backend`.")
    backend: str = setting(Choice("redis"), "redis", "Where the users are.")
    cmd: RedisCommand = required(
        RedisCommandText(
            RedisCommand.of_user,
            'HGET KEY FIELD or HMGET KEY FIELD .., as in "HMGET user:${username} password_hash salt"',
        ),
        "What gives the user: of the fields `password_hash`, `password`, `salt` and `is_superuser` at least one of the "
        "first two. The key may have placeholders.",
    )
    password_hash_algorithm: PasswordHashAlgorithm = section(PasswordHashAlgorithm, "How the passwords are hashed.")


_QUERY: Final = (
    "What gives the user's row: `password_hash` (or `password`), and if wanted `salt` and `is_superuser`. "
    "Placeholders are parameters, without quotes."
)


@dataclass(frozen=True, kw_only=True)
class PostgresqlAuthenticatorConfig(AuthenticatorConfig, PostgresqlConnection):
    maker = "stored_user"
    mechanism: str = setting(Choice("password_based"), "password_based", "Which authenticator it is, with `backend`.")
    backend: str = setting(Choice("postgresql"), "postgresql", "Where the users are.")
    query: str = required(QUERY, _QUERY)
    password_hash_algorithm: PasswordHashAlgorithm = section(PasswordHashAlgorithm, "How the passwords are hashed.")


@dataclass(frozen=True, kw_only=True)
class MysqlAuthenticatorConfig(AuthenticatorConfig, MysqlConnection):
    maker = "stored_user"
    mechanism: str = setting(Choice("password_based"), "password_based", "Which authenticator it is, with `backend`.")
    backend: str = setting(Choice("mysql"), "mysql", "Where the users are.")
    query: str = required(QUERY, _QUERY)
    password_hash_algorithm: PasswordHashAlgorithm = section(PasswordHashAlgorithm, "How the passwords are hashed.")


class WantedClaims(Kind[Mapping[str, str]]):
    """Claims and the texts that they must have."""

    expected = 'an object of texts, as in { sub = "${username}" }, or a list of { name, value }'

    def convert(self, value: Content) -> Mapping[str, str]:
        wanted = dict(self._pairs(value))
        for name in wanted:
            if not name or name in _TIMES:
                raise RefusedError(f"{name!r} is no claim to compare; {', '.join(_TIMES)} are checked anyway")
        return wanted

    def _pairs(self, value: Content) -> list[tuple[str, str]]:
        if isinstance(value, dict):
            return [(name, _text(node.value)) for name, node in value.items()]
        if not isinstance(value, list):
            raise RefusedError
        pairs = []
        for item in value:
            fields = item.value if isinstance(item.value, dict) else {}
            if set(fields) != {"name", "value"}:
                raise RefusedError
            pairs.append((_text(fields["name"].value), _text(fields["value"].value)))
        return pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class JwtConfig(AuthenticatorConfig):
    """Tokens whose signature says who a client is."""

    maker = "jwt"
    mechanism: str = setting(Choice("jwt"), "jwt", "Which authenticator it is.")
    source: str = setting(Choice("password", "username"), "password", "Where clients put the token.", name="from")
    use_jwks: bool = setting(Boolean(), False, "Whether the keys come from `endpoint`.")
    algorithm: str = setting(
        Choice("hmac-based", "public-key"),
        "hmac-based",
        "What the key is without `use_jwks`: `secret`, or `public_key`.",
    )
    secret: Secret = setting(SecretText(may_be_empty=True), Secret(), "The key of HS256, HS384 and HS512.")
    secret_base64_encoded: bool = setting(Boolean(), False, "Whether `secret` is in Base64.")
    public_key: str = setting(
        AnyText("a PEM text or the path of a PEM file"), "", "The public key or certificate of RS*, PS*, ES* and EdDSA."
    )
    endpoint: str = setting(Text("a URL as in https://issuer/jwks", r"(https?://\S+)?"), "", "Where the JWKS is.")
    headers: Mapping[str, str] = setting(
        Texts(), {"Accept": "application/json"}, "Headers of requests to `endpoint`.", is_secret=True
    )
    refresh_interval: float = setting(Duration(10.0), 300.0, "How often the JWKS is fetched.")
    pool_size: int = setting(Integer(1, 1024), 8, "Connections to `endpoint` at most.")
    tls: ClientTls | None = optional_section(
        ClientTls, "TLS to `endpoint`, if not with the authorities of the system.", name="ssl", has_switch=True
    )
    verify_claims: Mapping[str, str] = setting(
        WantedClaims(), {}, "Claims and the text that each must have; with `${clientid}` and `${username}`."
    )
    disconnect_after_expire: bool = setting(
        Boolean(), True, "Whether a client is disconnected when its token expires (`exp`)."
    )
    acl_claim_name: str = setting(Text("the name of a claim"), "acl", "The claim with the client's rights.")

    def __post_init__(self) -> None:
        if self.use_jwks:
            if not self.endpoint:
                raise RefusedError("use_jwks needs endpoint: where are the keys?", "endpoint")
        elif self.algorithm == "public-key":
            if not self.public_key:
                raise RefusedError("algorithm = public-key needs public_key", "public_key")
        elif not self.secret:
            raise RefusedError("algorithm = hmac-based needs secret", "secret")
        elif self.secret_base64_encoded and self.secret.file is None:
            try:
                secret_bytes(self.secret, is_base64=True)
            except ValueError as error:
                raise RefusedError(str(error), "secret") from None


# One line for each kind, in the order of the documents.
_MODELS: Final[tuple[type[Any], ...]] = (
    BuiltInDatabaseConfig,
    MysqlAuthenticatorConfig,
    PostgresqlAuthenticatorConfig,
    HttpConfig,
    MongoAuthenticatorConfig,
    RedisAuthenticatorConfig,
    LdapAuthenticatorConfig,
    JwtConfig,
    ScramConfig,
    ScramHttpConfig,
    CinfoConfig,
    GssapiConfig,
)
AUTHENTICATORS: Final = ListOfVariants(_MODELS, _TAGS)
LISTENER_AUTHENTICATORS: Final = ListOfVariants(_MODELS, _TAGS, described_at="authentication")


@dataclass(frozen=True, slots=True)
class AuthenticationSettings:
    timeout: float = setting(
        Duration(0.1, 60.0),
        10.0,
        "How long one authenticator may take with a client; then it has failed. All together have `mqtt.idle_timeout`.",
    )
    on_failure: str = setting(
        Choice("ignore", "deny"),
        "ignore",
        "What it means that an authenticator fails, such as one whose backend is down: the next one is asked, or the "
        "client is refused (`server_unavailable`).",
    )
    node_cache: NodeCacheConfig = section(NodeCacheConfig, "Users that databases gave, which the node remembers.")
    password_checks: PasswordThreads = section(
        PasswordThreads, "Checks of passwords whose hash takes long (bcrypt, pbkdf2)."
    )
    hide_reasons: bool = setting(
        Boolean(),
        False,
        "Whether a client with a wrong password gets the same answer as an unknown one (`not_authorized`), so that it "
        "does not find out which users there are.",
    )


def _text(value: Content) -> str:
    """One that looks like a number in the file is compared as its digits."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int):
        raise RefusedError
    return str(value)


def secret_bytes(secret: Secret, *, is_base64: bool) -> bytes:
    """Raises `ValueError` if it is no Base64 or empty, `SecretError` if its file cannot be read."""
    text = secret.reveal()
    if not is_base64:
        return text.encode()
    try:
        key = base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("the secret is no Base64, as secret_base64_encoded says that it is") from None
    if not key:
        raise ValueError("the secret is empty")
    return key
