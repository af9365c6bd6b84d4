"""What sinks share that connect to servers of others: where a pipeline file lets them connect to."""

import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from heliograph.outbound import Dialer, Outbound, OutboundDeniedError, SocketAddress
from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.sinks.interface import Sink
from heliograph.pipeline.sinks.retry import TransientError
from heliograph.settings.outbound import STORE_PORT, OutboundConfig, servers_in, servers_of_store
from heliograph.settings.units import Address


@dataclass(frozen=True, kw_only=True)
class OutwardSink(Sink):
    """A sink that connects to servers.

    Attributes:
        outbound: What the pipeline file says of servers that may be connected to; not a setting of the sink.
        declared_at: The path of its section, such as `rules.weather.sink`.
    """

    outbound: OutboundConfig = field(default_factory=OutboundConfig, repr=False)
    declared_at: str = field(default="sink", repr=False, compare=False)

    @property
    def dialer(self) -> Dialer:
        """What opens its connections."""
        return Outbound(self.outbound).dialer(self.declared_at)

    def addresses_of(self, server: Address) -> list[SocketAddress]:
        """The addresses of a server that may be connected to.

        Raises:
            SinkError: The file denies them.
            TransientError: They cannot be found now.
        """
        with self.connecting():
            return self.dialer.addresses(server.host, server.port)

    def dial(self, server: Address, timeout_s: float) -> socket.socket:
        """A socket that is connected to a server; raises as `addresses_of` does."""
        with self.connecting():
            return self.dialer.connect(server.host, server.port, timeout_s)

    def check_store(self, uri: str, options: Mapping[str, str]) -> None:
        """Hold the servers that URI and options of a store name against the file; raises as `addresses_of` does.

        The library of a store resolves their names itself, once more, and says what it cannot find.
        """
        for host, port in (*servers_of_store(uri), *servers_in(options, buckets=False)):
            if host:
                self.deny_or_leave(Address(host, port or STORE_PORT))

    def deny_or_leave(self, server: Address) -> None:
        """Raise `SinkError` for a server that the file denies; one that cannot be found is left to the library."""
        with suppress(TransientError):
            self.addresses_of(server)

    @contextmanager
    def connecting(self) -> Iterator[None]:
        """Raise what `addresses_of` does for errors of a connection."""
        try:
            yield
        except OutboundDeniedError as error:
            raise SinkError(f"{self.target}: {error}") from error
        except OSError as error:
            raise TransientError(f"{self.target}: {error}") from error
