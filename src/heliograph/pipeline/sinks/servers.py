"""What sinks have in common that send rows to a server: where it is, who connects, how, and what is tried again."""

from dataclasses import dataclass

from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.sinks.interface import RowSink
from heliograph.pipeline.sinks.outward import OutwardSink
from heliograph.pipeline.sinks.retry import RetryPolicy
from heliograph.settings.fields import optional, optional_section, section
from heliograph.settings.kinds import SecretText, Text
from heliograph.settings.secrets import Secret, SecretError
from heliograph.settings.tls import ClientTls


@dataclass(frozen=True, kw_only=True)
class ServerSink(OutwardSink, RowSink):
    """A sink whose rows go to a server, with the settings of the connection."""

    username: str | None = optional(Text("a user name"), "Who connects.")
    password: Secret | None = optional(SecretText(), "The password for it.")
    tls: ClientTls | None = optional_section(ClientTls, "TLS, see above.", name="ssl", has_switch=True)
    retry: RetryPolicy = section(RetryPolicy, "What is tried again, see above.")

    @property
    def password_text(self) -> str | None:
        return revealed(self.password)


def revealed(secret: Secret | None) -> str | None:
    try:
        return secret.reveal() if secret is not None else None
    except SecretError as error:
        raise SinkError(str(error)) from error
