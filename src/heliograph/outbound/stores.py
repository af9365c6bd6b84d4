"""Object stores, whose libraries resolve and connect by themselves: the servers that are named are looked at before."""

from heliograph.outbound.dialing import Dialer, OutboundDeniedError
from heliograph.settings.outbound import STORE_PORT, is_uri, servers_of_store


async def check_store(dialer: Dialer, place: str) -> None:
    """Hold the servers that the URI of a store names against what is allowed; a directory names none.

    Raises:
        OutboundDeniedError: One is denied.
    """
    for host, port in servers_of_store(place) if is_uri(place) else ():
        try:
            await dialer.resolve(host, port or STORE_PORT)
        except OutboundDeniedError:
            raise
        except OSError:
            continue  # the library says what it cannot find
