"""Settings of the source `postgresql`."""

from dataclasses import dataclass

from heliograph.config.authorization.source import SourceConfig
from heliograph.config.backends.sql import QUERY, PostgresqlConnection
from heliograph.settings.fields import required, setting
from heliograph.settings.kinds import Choice


@dataclass(frozen=True, kw_only=True)
class PostgresqlSourceConfig(SourceConfig, PostgresqlConnection):
    """Rules in PostgreSQL."""

    type: str = setting(Choice("postgresql"), "postgresql", "Which source it is.")
    query: str = required(
        QUERY,
        "What gives the rules of a client, a row each in the order in which they are tried: `permission`, `action`, "
        "`topic`, and if wanted `qos`, `retain` and conditions. Placeholders are parameters, without quotes.",
    )
