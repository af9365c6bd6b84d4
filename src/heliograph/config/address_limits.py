"""Settings of `address_limits`: how often clients of one address may connect, and fail to log in."""

from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network

from heliograph.config.kinds import RateLimit
from heliograph.hocon.values import Content
from heliograph.settings.fields import ListOf, list_setting, section, setting
from heliograph.settings.kinds import Boolean, Duration, Integer, Kind, RefusedError, Unless, detailed
from heliograph.settings.units import Rate

Network = IPv4Network | IPv6Network

# Behind a proxy on the same machine every client has its address.
LOOPBACK: tuple[Network, ...] = (ip_network("127.0.0.0/8"), ip_network("::1/128"))


class NetworkText(Kind[Network]):
    """A network, or one address."""

    expected = 'a network as in "10.0.0.0/8", or an address'

    def convert(self, value: Content) -> Network:
        if not isinstance(value, str):
            raise RefusedError
        return detailed(ip_network, value)


@dataclass(frozen=True, slots=True)
class LoginBackoff:
    """Logins that fail make the next ones wait, longer each time."""

    enable: bool = setting(Boolean(), True, "Whether they have to wait.")
    max_failures: int = setting(
        Integer(1),
        10,
        "How many failed logins of one user name from one address within `window_time` are free. Clients without a "
        "user name count by client id. A client id that logged in before under that name from there has as many of "
        "its own.",
    )
    max_failures_of_address: int = setting(
        Integer(1),
        100,
        "The same for all user names of an address together. Those that logged in from it before do not wait for the "
        "failures of others.",
    )
    window_time: float = setting(Duration(1.0), 60.0, "The span of time in which failures are counted.")
    min_wait: float = setting(
        Duration(0.1), 1.0, "How long the next login is refused at first; each further failure doubles it."
    )
    max_wait: float = setting(Duration(0.1), 60.0, "How long at most.")

    def __post_init__(self) -> None:
        if self.max_wait < self.min_wait:
            raise RefusedError(f"max_wait ({self.max_wait:g} s) is shorter than min_wait ({self.min_wait:g} s)")


@dataclass(frozen=True, slots=True)
class AddressLimits:
    """What clients of one address may do before they are known; an IPv6 address is its network of 64 bits."""

    exempt: tuple[Network, ...] = list_setting(
        ListOf(NetworkText()),
        LOOPBACK,
        "Networks without these limits, as those of proxies behind which all clients have one address.",
    )
    max_conn_rate: Rate | None = setting(
        Unless(RateLimit(), "infinity"), None, "CONNECT packets from one address; further ones are refused with 0x9F."
    )
    login_backoff: LoginBackoff = section(LoginBackoff, "Logins that fail.")
