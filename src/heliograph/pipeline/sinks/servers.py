"""What sinks have in common that send rows to a server: where it is, who connects, how, and what is tried again."""

from dataclasses import dataclass

from heliograph.hocon.values import Content
from heliograph.pipeline.datasource.options import parse_endpoint
from heliograph.pipeline.errors import OptionError, SinkError
from heliograph.pipeline.sinks.interface import Sink
from heliograph.pipeline.sinks.retry import RetryPolicy
from heliograph.settings.fields import optional, optional_section, section
from heliograph.settings.kinds import Kind, RefusedError, SecretText, Text
from heliograph.settings.secrets import Secret, SecretError
from heliograph.settings.tls import ClientTls
from heliograph.settings.units import Address


class ServerAddress(Kind[Address]):
    """Where a server is.

    Args:
        port: The port where the text has none; 0 if it must have one.
    """

    def __init__(self, port: int = 0) -> None:
        self._port = port
        self.expected = f"host:port, or a host for port {port}" if port else "host:port"

    def convert(self, value: Content) -> Address:
        """Host and port."""
        if not isinstance(value, str):
            raise RefusedError
        has_port = ":" in value.rpartition("]")[2] or not self._port
        try:
            return Address(*parse_endpoint("server", value if has_port else f"{value}:{self._port}"))
        except OptionError:
            raise RefusedError from None


@dataclass(frozen=True, kw_only=True)
class ServerSink(Sink):
    """A sink whose rows go to a server, with the settings of the connection."""

    username: str | None = optional(Text("a user name"), "Who connects.")
    password: Secret | None = optional(SecretText(), "The password for it.")
    tls: ClientTls | None = optional_section(ClientTls, "TLS, see above.", name="ssl", has_switch=True)
    retry: RetryPolicy = section(RetryPolicy, "What is tried again, see above.")

    @property
    def password_text(self) -> str | None:
        """The password, None without one.

        Raises:
            SinkError: Its file cannot be read.
        """
        return revealed(self.password)


def revealed(secret: Secret | None) -> str | None:
    """The text of a secret, if there is one.

    Raises:
        SinkError: Its file cannot be read.
    """
    try:
        return secret.reveal() if secret is not None else None
    except SecretError as error:
        raise SinkError(str(error)) from error
