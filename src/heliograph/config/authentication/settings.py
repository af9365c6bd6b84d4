"""Settings of `authentication_settings`: what holds for all authenticators."""

from dataclasses import dataclass

from heliograph.config.backends.node_cache import NodeCacheConfig
from heliograph.config.passwords import PasswordThreads
from heliograph.settings.fields import section, setting
from heliograph.settings.kinds import Boolean, Choice, Duration


@dataclass(frozen=True, slots=True)
class AuthenticationSettings:
    """What holds for all authenticators."""

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
