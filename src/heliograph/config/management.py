"""Settings of `management`, `dashboard` and `api_key`: the HTTP API of a node, and who may call it."""

from dataclasses import dataclass

from heliograph.config.address_limits import NetworkText
from heliograph.config.kinds import Bind
from heliograph.config.single_sign_on import SsoConfig
from heliograph.hocon.values import Content
from heliograph.settings.fields import How, ListOf, list_setting, section, setting
from heliograph.settings.kinds import (
    AnyText,
    Boolean,
    Choice,
    Duration,
    Integer,
    Kind,
    RefusedError,
    SecretText,
    Size,
    Unless,
)
from heliograph.settings.secrets import Secret
from heliograph.settings.tls import ServerTls
from heliograph.settings.units import Address


@dataclass(frozen=True, slots=True)
class ManagementConfig:
    """The process beside the node that serves the HTTP API."""

    enable: bool = setting(Boolean(), True, "Whether the process is started; without it there is no HTTP API.")
    max_archive_bytes: int = setting(
        Size(1024 * 1024),
        10 * 1024**3,
        "What the archives in `backup` of the data directory, exported and uploaded ones, may take together; beyond it "
        "no further one is made or taken.",
    )


@dataclass(frozen=True, slots=True)
class DashboardHttpListener:
    bind: Address | None = setting(
        Unless(Bind(), "disabled", zero=True), Address("127.0.0.1", 18083), "Address and port, or `disabled`."
    )


@dataclass(frozen=True, slots=True)
class DashboardHttpsListener:
    bind: Address | None = setting(
        Unless(Bind(), "disabled", zero=True), None, "Address and port, or `disabled`; it needs `ssl_options.certfile`."
    )
    ssl_options: ServerTls = section(ServerTls, "TLS of this listener.")

    def __post_init__(self) -> None:
        if self.bind is not None and not self.ssl_options.certfile:
            raise RefusedError("a bind needs ssl_options.certfile: the certificate that is shown")


@dataclass(frozen=True, slots=True)
class DashboardListeners:
    http: DashboardHttpListener = section(DashboardHttpListener, "Without TLS.")
    https: DashboardHttpsListener = section(DashboardHttpsListener, "Over TLS.")


class ProxyNetwork(Kind[str]):
    """A network of proxies, as text: the process that goes by it is sent the settings."""

    expected = 'a network of proxies as in "10.0.0.0/24", or the address of one'

    def convert(self, value: Content) -> str:
        network = NetworkText().convert(value)
        if network.prefixlen == 0:
            raise RefusedError("it holds all addresses, so that every caller could say that it has another one")
        return str(network)


@dataclass(frozen=True, slots=True)
class DashboardConfig:
    listeners: DashboardListeners = section(DashboardListeners, "Where it is served.")
    token_expired_time: float = setting(
        Duration(1.0), 3600.0, "How long a login lasts that is not used; each use begins it again."
    )
    sample_interval: int = setting(
        Integer(1, 60), 10, "Seconds between two samples of the history of a node; they must divide 60."
    )
    default_username: str = setting(
        AnyText("a user name, or empty"),
        "",
        "The name of the user that is made at the first start, where `default_password` is set; `admin` where empty.",
    )
    default_password: Secret = setting(
        SecretText(may_be_empty=True),
        Secret(),
        "The password of that user; empty for no such user: the log then says how to make the first one.",
    )
    sso: SsoConfig = section(SsoConfig, "Logins at a provider of identities.")
    trusted_proxies: tuple[str, ...] = list_setting(
        ListOf(ProxyNetwork()),
        (),
        "Networks of reverse proxies. Of a request of theirs the address in `proxy_address_header` counts, for limits "
        "and the audit log; of several ones the last that is no trusted proxy.",
    )
    proxy_address_header: str = setting(
        Choice("X-Forwarded-For", "Forwarded"),
        "X-Forwarded-For",
        "The header to which `trusted_proxies` add the address of a caller.",
    )
    cors: bool = setting(Boolean(), False, "Whether pages of other origins may call the API.")
    swagger_support: bool = setting(Boolean(), True, "Whether the document of the API is served.")


@dataclass(frozen=True, slots=True)
class ApiKeyConfig:
    bootstrap_file: str = setting(
        AnyText("a file, or empty"),
        "",
        "File with a key in each line, `key:secret` or `key:secret:role`, that are there from the start.",
        how=How.LIVE,
    )
