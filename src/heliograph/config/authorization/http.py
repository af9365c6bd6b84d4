"""Settings of the source `http`: a service that is asked about each action."""

from dataclasses import dataclass

from heliograph.config.authorization.source import SourceConfig
from heliograph.config.backends.http import HttpRequest
from heliograph.settings.fields import setting
from heliograph.settings.kinds import Choice, Duration


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSourceConfig(SourceConfig, HttpRequest):
    """An HTTP service says what clients may do."""

    type: str = setting(Choice("http"), "http", "Which source it is.")
    request_timeout: float = setting(Duration(0.001), 30.0, "How long an answer may take.")
