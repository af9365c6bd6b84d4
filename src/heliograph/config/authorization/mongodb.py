"""Settings of the source `mongodb`."""

from dataclasses import dataclass

from heliograph.config.authorization.source import SourceConfig
from heliograph.config.backends.mongodb import MongoConnection
from heliograph.settings.fields import setting
from heliograph.settings.kinds import Choice, Integer


@dataclass(frozen=True, kw_only=True)
class MongoSourceConfig(SourceConfig, MongoConnection):
    """Rules in documents of MongoDB."""

    type: str = setting(Choice("mongodb"), "mongodb", "Which source it is.")
    limit: int = setting(Integer(1, 1_000_000), 1000, "How many documents are read for a client at most.")
    skip: int = setting(Integer(0, 1_000_000), 0, "How many of the first documents are left out.")
