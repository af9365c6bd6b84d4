"""Settings of the authenticators whose users the node keeps itself: `password_based:built_in_database` and `scram`."""

from dataclasses import dataclass
from typing import Final

from heliograph.config.authentication.authenticator import AuthenticatorConfig
from heliograph.config.passwords import PasswordHashAlgorithm
from heliograph.settings.fields import section, setting
from heliograph.settings.kinds import AnyText, Boolean, Choice, Integer

_BACKEND: Final = "built_in_database"
_ON_CHANGE: Final = "Whether clients of a user lose their connection when its password changes or it is deleted."


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltInDatabaseConfig(AuthenticatorConfig):
    """Users with passwords, which `heliograph ctl users` adds."""

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

    mechanism: str = setting(Choice("scram"), "scram", "Which authenticator it is.")
    backend: str = setting(Choice(_BACKEND), _BACKEND, "Where it looks.")
    algorithm: str = setting(
        Choice("sha256", "sha512"), "sha256", "The hash function; the method is SCRAM-SHA-256 or SCRAM-SHA-512."
    )
    iteration_count: int = setting(
        Integer(1, 10_000_000), 4096, "Iterations for passwords that are set from now on; each user keeps its own."
    )
    disconnect_on_user_change: bool = setting(Boolean(), False, _ON_CHANGE)
