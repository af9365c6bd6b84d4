"""Settings of the authenticator `cinfo`: expressions about a client decide."""

from dataclasses import dataclass

from heliograph.config.authentication.authenticator import AuthenticatorConfig
from heliograph.hocon.values import Content, Plain
from heliograph.settings.fields import required, section_list, setting
from heliograph.settings.kinds import Choice, Kind, RefusedError


class Expressions(Kind[tuple[str, ...]]):
    """One expression or a list of them."""

    expected = "a variform expression, or a list of them"

    def convert(self, value: Content) -> tuple[str, ...]:
        """The expressions as they are."""
        texts = [item.value for item in value] if isinstance(value, list) else [value]
        expressions = tuple(text for text in texts if isinstance(text, str) and text.strip())
        if not expressions or len(expressions) != len(texts):
            raise RefusedError
        return expressions

    def plain(self, value: tuple[str, ...]) -> list[Plain]:
        """A list."""
        return list(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class CinfoCheck:
    """One check."""

    is_match: tuple[str, ...] = required(Expressions(), "Variform expressions, all of which must render `true`.")
    result: str = required(Choice("allow", "deny", "ignore"), "What it decides then.")


@dataclass(frozen=True, slots=True, kw_only=True)
class CinfoConfig(AuthenticatorConfig):
    """Expressions about the client."""

    mechanism: str = setting(Choice("cinfo"), "cinfo", "Which authenticator it is.")
    checks: tuple[CinfoCheck, ...] = section_list(CinfoCheck, "Checks; the first that fits decides.")

    def __post_init__(self) -> None:
        if not self.checks:
            raise RefusedError("checks needs at least one")
