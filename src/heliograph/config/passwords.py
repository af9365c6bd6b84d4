"""Settings of `password_hash_algorithm`: how stored passwords are hashed, and of the pool that computes slow hashes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from heliograph.settings.fields import optional, setting
from heliograph.settings.kinds import Choice, Duration, Integer, RefusedError

DIGESTS: Final = ("md5", "sha", "sha256", "sha512")
MAC_FUNCTIONS: Final = ("sha", "sha224", "sha256", "sha384", "sha512")
_KEYS: Final = {"bcrypt": ("salt_rounds",), "pbkdf2": ("mac_fun", "iterations", "dk_length")}
_SIMPLE_KEYS: Final = ("salt_position",)
_ALL_KEYS: Final = ("salt_position", "salt_rounds", "mac_fun", "iterations", "dk_length")


@dataclass(frozen=True, slots=True)
class PasswordHashAlgorithm:
    """How stored passwords are hashed; settings that the algorithm does not have are refused."""

    name: str = setting(
        Choice("plain", *DIGESTS, "bcrypt", "pbkdf2"),
        "sha256",
        "The algorithm; `sha` is SHA-1. See docs/authentication.md.",
    )
    salt_position: str | None = optional(
        Choice("prefix", "suffix", "disable"),
        "Where the salt stands in what is hashed; of plain, md5, sha, sha256 and sha512 alone. Default: prefix.",
    )
    salt_rounds: int | None = optional(
        Integer(1),
        "The cost of bcrypt for new passwords of the built-in database, taken as the nearest from 5 to 10; a stored "
        "hash says its own. Default: 10.",
    )
    mac_fun: str | None = optional(
        Choice(*MAC_FUNCTIONS), "The hash function of pbkdf2, which needs it; md4, md5 and ripemd160 are broken."
    )
    iterations: int | None = optional(Integer(1, 100_000_000), "The iterations of pbkdf2, which needs them.")
    dk_length: int | None = optional(
        Integer(1, 1024), "The length of the key that pbkdf2 derives, in bytes. Default: that of a digest of mac_fun."
    )

    def __post_init__(self) -> None:
        own = _KEYS.get(self.name, _SIMPLE_KEYS)
        for key in _ALL_KEYS:
            if getattr(self, key) is not None and key not in own:
                raise RefusedError(f"{self.name} has no {key}; it has {', '.join(own)}", at=key)
        if self.name == "pbkdf2":
            for key in ("mac_fun", "iterations"):
                if getattr(self, key) is None:
                    raise RefusedError(f"pbkdf2 needs {key}")

    @property
    def is_slow(self) -> bool:
        """A slow check takes milliseconds, and is made beside the event loop."""
        return self.name in _KEYS

    @property
    def is_salted(self) -> bool:
        """Whether a new password of the built-in database gets a salt of its own beside the hash."""
        return self.name not in ("plain", "bcrypt") and self.salt_position != "disable"


@dataclass(frozen=True, slots=True)
class PasswordThreads:
    """The threads that check passwords whose hash takes long (bcrypt, pbkdf2)."""

    threads: int = setting(
        Integer(1, 64),
        2,
        "Threads at most. They have a low priority, so that clients that are connected go first.",
    )
    max_waiting: int = setting(
        Integer(1, 1_000_000),
        2000,
        "Logins that may wait for them; those that come then are refused (`server_busy`).",
    )
    max_wait: float = setting(
        Duration(0.1, 60.0),
        8.0,
        "How long a login may have to wait, by what checks take now; those that had to wait longer are refused "
        "(`server_busy`). Less than `authentication_settings.timeout`.",
    )
