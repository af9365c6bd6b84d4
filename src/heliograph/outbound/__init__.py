"""Connections to other servers, opened where the settings `outbound` allow it: the address checked is the one used.

`dialing` resolves names and connects sockets, `http` has transports for httpx, `http_connection` sends many requests,
`stores` looks at object stores. The settings and the decision are in `settings/outbound.py`.
"""

from heliograph.outbound.dialing import Dialer, Outbound, OutboundDeniedError, SocketAddress

__all__ = ["Dialer", "Outbound", "OutboundDeniedError", "SocketAddress"]
