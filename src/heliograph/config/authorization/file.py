"""Settings of the source `file`: rules in the format of acl.conf."""

from dataclasses import dataclass
from typing import Final

from heliograph.config.authorization.source import SourceConfig
from heliograph.settings.fields import setting
from heliograph.settings.kinds import AnyText, Choice

#: Where rules are if nothing else is said; it need not exist.
DEFAULT_FILE: Final = "/etc/heliograph/acl.conf"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSourceConfig(SourceConfig):
    """Rules of a file."""

    type: str = setting(Choice("file"), "file", "Which source it is.")
    path: str = setting(
        AnyText("a file"),
        DEFAULT_FILE,
        "The file; may name environment variables. Only the default one may be missing: then there are no rules.",
    )
