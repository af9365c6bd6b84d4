"""Connections of libpq to addresses that were checked."""

from collections.abc import Sequence

from heliograph.outbound.dialing import SocketAddress


def server_arguments(host: str, addresses: Sequence[SocketAddress]) -> dict[str, str]:
    """Where libpq connects, one address after the other, as arguments of `psycopg`; the name is for TLS alone."""
    return {"host": ",".join([host] * len(addresses)), "hostaddr": ",".join(one.host for one in addresses)}
