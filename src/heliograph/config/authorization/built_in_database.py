"""Settings of the source `built_in_database`: rules that `heliograph ctl acl` sets."""

from dataclasses import dataclass

from heliograph.config.authorization.source import SourceConfig
from heliograph.settings.fields import setting
from heliograph.settings.kinds import Choice, Integer


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltInDatabaseSourceConfig(SourceConfig):
    """Rules of client ids, of user names, and of all clients, that commands set."""

    type: str = setting(Choice("built_in_database"), "built_in_database", "Which source it is.")
    max_rules: int = setting(
        Integer(1), 100, "Rules that a client id, a user name, or all clients may have; checked when they are set."
    )
