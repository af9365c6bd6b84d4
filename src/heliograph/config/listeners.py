"""Settings of `listeners`: where clients connect, over which transport, and what a connection may do."""

from collections.abc import Mapping
from dataclasses import dataclass

from heliograph.config.access_rules import AccessRule
from heliograph.config.authentication import LISTENER_AUTHENTICATORS, AuthenticatorConfig
from heliograph.config.kinds import AccessRuleText, ListenerBind, RateLimit
from heliograph.settings.fields import (
    How,
    ListOf,
    list_setting,
    named_sections,
    section,
    section_list,
    setting,
    variants,
)
from heliograph.settings.kinds import (
    AnyText,
    Boolean,
    Choice,
    Duration,
    Integer,
    PemFile,
    RefusedError,
    SecretText,
    Size,
    Switch,
    Text,
    Unless,
)
from heliograph.settings.secrets import Secret
from heliograph.settings.tls import ServerTls
from heliograph.settings.units import Address, Rate, UnixAddress

_KB = 1024
_MB = 1024 * 1024

TLS_VERSIONS = ("tlsv1.3", "tlsv1.2")


@dataclass(frozen=True, slots=True)
class TcpOptions:
    backlog: int = setting(
        Integer(1, 65535),
        1024,
        "Connections that may wait to be accepted (the system may allow fewer).",
        how=How.LIVE,
    )
    nodelay: bool = setting(Boolean(), True, "Whether small packets are sent at once (TCP_NODELAY).")
    keepalive: str = setting(
        Text('"none", or "IDLE,INTERVAL,PROBES" in seconds as in "300,30,5"', r"none|\d{1,5},\d{1,5},\d{1,3}"),
        "none",
        "How the system probes silent peers: after so many seconds, so often, before it gives up.",
    )
    sndbuf: int | None = setting(
        Unless(Size(_KB, 1024 * _MB), "default"),
        None,
        "The system's send buffer of a connection.",
        how=How.LISTENER_REPLACED,
    )
    recbuf: int | None = setting(
        Unless(Size(_KB, 1024 * _MB), "default"),
        None,
        "The system's receive buffer of a connection.",
        how=How.LISTENER_REPLACED,
    )
    high_watermark: int = setting(
        Size(_KB, 1024 * _MB), _MB, "Bytes that wait for a peer that does not read, from which its session holds back."
    )
    send_timeout: float | None = setting(
        Unless(Duration(0.1), "infinity"),
        15.0,
        "How long a connection may stay above its high watermark before it is cut.",
        how=How.LIVE,
    )


@dataclass(frozen=True, slots=True)
class ServerName:
    """The certificate for clients that ask for one server name (SNI)."""

    server_name: str = setting(
        Text('a host name, or "*." and a domain', r"(\*\.)?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*"),
        "localhost",
        "The name; `*.` in front stands for one label.",
    )
    certfile: str = setting(PemFile(), "", "PEM file with its certificate and what leads to its root.")
    keyfile: str = setting(PemFile(), "", "PEM file with its private key; empty if in `certfile`.")
    password: Secret = setting(SecretText(may_be_empty=True), Secret(), "Password of the key; empty for none.")


@dataclass(frozen=True, slots=True)
class SslOptions(ServerTls):
    password: Secret = setting(SecretText(may_be_empty=True), Secret(), "Password of the key; empty for none.")
    fail_if_no_peer_cert: bool = setting(
        Boolean(), False, "Whether a client without a certificate is refused (with `verify_peer`)."
    )
    versions: tuple[str, ...] = list_setting(
        ListOf(Choice(*TLS_VERSIONS), at_least=1), TLS_VERSIONS, "TLS versions that are spoken."
    )
    ciphers: str = setting(
        Text("names of OpenSSL with colons between", r"[A-Za-z0-9_:+!@=.-]*"),
        "",
        "Cipher suites of TLS 1.2 in the order of preference, as OpenSSL writes them; empty for its defaults.",
    )
    honor_cipher_order: bool = setting(Boolean(), True, "Whether our order of cipher suites is preferred.")
    enable_crl_check: bool = setting(
        Boolean(), False, "Whether clients' certificates are looked up in `crlfile` (with `verify_peer`)."
    )
    crlfile: str = setting(PemFile(), "", "PEM file with the revocation lists of the authorities.")
    handshake_timeout: float = setting(
        Duration(0.1, 3600.0), 15.0, "How long a TLS handshake may take; `mqtt.idle_timeout` if that is shorter."
    )
    sni: tuple[ServerName, ...] = section_list(ServerName, "Other certificates by the name that a client asks for.")

    def __post_init__(self) -> None:
        if self.fail_if_no_peer_cert and not self.verify:
            raise RefusedError("fail_if_no_peer_cert has no meaning without verify = verify_peer")
        ServerTls.__post_init__(self)
        if self.enable_crl_check and not (self.crlfile and self.verify):
            raise RefusedError("enable_crl_check needs crlfile and verify = verify_peer")


@dataclass(frozen=True, slots=True)
class DeflateOptions:
    level: int = setting(Integer(1, 9), 6, "How hard to compress.")
    mem_level: int = setting(Integer(1, 9), 8, "Memory for it: 2 to the power of this and 9, in bytes.")
    server_context_takeover: bool = setting(
        Boolean(), True, "Whether what was sent before helps to compress; costs memory per connection."
    )
    client_context_takeover: bool = setting(Boolean(), True, "Whether the client may do so.")
    server_max_window_bits: int = setting(Integer(9, 15), 15, "Our window: 2 to the power of this, in bytes.")
    client_max_window_bits: int = setting(Integer(9, 15), 15, "The client's window.")


@dataclass(frozen=True, slots=True)
class WebsocketOptions:
    mqtt_path: str = setting(Text("a path", r"/[!-~]*"), "/mqtt", "The path of the URL; others are answered with 404.")
    mqtt_piggyback: str = setting(
        Choice("multiple", "single"), "multiple", "Whether a message to a client may hold several MQTT packets."
    )
    supported_subprotocols: str = setting(
        Text("names with commas between", r"[A-Za-z0-9._-]+(\s*,\s*[A-Za-z0-9._-]+)*"),
        "mqtt, mqtt-v3, mqtt-v3.1.1, mqtt-v5",
        "Subprotocols of which a client may ask for one.",
    )
    fail_if_no_subprotocol: bool = setting(Boolean(), True, "Whether a client that asks for none of them is refused.")
    check_origin_enable: bool = setting(Boolean(), False, "Whether the Origin header must be one of `check_origins`.")
    allow_origin_absence: bool = setting(Boolean(), True, "Whether it may be missing (only browsers send it).")
    check_origins: str = setting(
        AnyText("origins with commas between"), "", 'Allowed origins, as in "https://example.org".'
    )
    compress: bool = setting(Boolean(), False, "Whether messages may be compressed (permessage-deflate).")
    deflate_opts: DeflateOptions = section(DeflateOptions, "How messages are compressed.")
    max_frame_size: int | None = setting(
        Unless(Size(1), "infinity"),
        None,
        "Largest message of a client, uncompressed. Messages are not gathered: only `max_packet_size` bounds memory.",
    )
    idle_timeout: float | None = setting(
        Unless(Duration(1.0), "infinity"),
        7200.0,
        "How long a connection may be silent, pings included.",
        how=How.LIVE,
    )
    proxy_address_header: str = setting(
        Text("the name of a header", r"[A-Za-z0-9-]*"),
        "",
        "Header with the client's address, as X-Forwarded-For; empty for none. Only for proxies that overwrite it.",
    )
    proxy_port_header: str = setting(
        Text("the name of a header", r"[A-Za-z0-9-]*"), "", "Header with the client's port, as X-Forwarded-Port."
    )


@dataclass(frozen=True, slots=True)
class ListenerConfig:
    enable: bool = setting(Boolean(), True, "Whether the listener is started.")
    bind: Address | UnixAddress = setting(
        ListenerBind(), Address("127.0.0.1", 1883), "Address to listen on; a port alone means every IPv4 interface."
    )
    max_connections: int | None = setting(
        Unless(Integer(1), "infinity"),
        None,
        "Connections that the listener holds at the same time.",
        how=How.NEW_CONNECTIONS,
    )
    max_conn_rate: Rate | None = setting(
        Unless(RateLimit(), "infinity"),
        None,
        "Connections that are accepted; further ones wait in the backlog.",
        how=How.LIVE,
    )
    messages_rate: Rate | None = setting(
        Unless(RateLimit(), "infinity"),
        None,
        "PUBLISH packets that are read of one client; further ones wait.",
        how=How.NEW_CONNECTIONS,
    )
    messages_burst: int = setting(Integer(0), 0, "How many more it may send at once.", how=How.NEW_CONNECTIONS)
    bytes_rate: Rate | None = setting(
        Unless(RateLimit(of_bytes=True), "infinity"),
        None,
        "Bytes that are read of one client; further ones wait.",
        how=How.NEW_CONNECTIONS,
    )
    bytes_burst: int = setting(Size(0), 0, "How many more it may send at once.", how=How.NEW_CONNECTIONS)
    access_rules: tuple[AccessRule, ...] = list_setting(
        ListOf(AccessRuleText()),
        (AccessRule(True, None),),
        "Who may connect, by the address of the connection; the first rule that fits decides, and none allows.",
        how=How.NEW_CONNECTIONS,
    )
    proxy_protocol: bool = setting(
        Boolean(),
        False,
        "Whether connections come from a proxy that begins with a PROXY protocol header (v1 or v2).",
        how=How.NEW_CONNECTIONS,
    )
    proxy_protocol_timeout: float = setting(
        Duration(0.1, 3600.0), 3.0, "How long that header may take.", how=How.NEW_CONNECTIONS
    )
    zone: str = setting(
        Text("the name of a zone"), "default", "The zone whose settings its clients get.", how=How.NEW_CONNECTIONS
    )
    mountpoint: str = setting(
        Text("a topic prefix", r"(?s)[^+#\x00]*"),
        "",
        "What stands before the topics of its clients; may hold `${clientid}`, `${username}` and "
        "`${client_attrs.NAME}`.",
        how=How.NEW_CONNECTIONS,
    )
    enable_authn: str = setting(
        Switch("quick_deny_anonymous"),
        "true",
        "Whether authenticators are asked about its clients; `false` lets everybody in. `quick_deny_anonymous` refuses "
        "clients without a user name before any is asked.",
        how=How.NEW_CONNECTIONS,
    )
    authentication: tuple[AuthenticatorConfig, ...] = variants(
        LISTENER_AUTHENTICATORS,
        "Authenticators of its clients, in the place of those of the root `authentication`, which has the settings of "
        "each; empty for those.",
        how=How.NEW_CONNECTIONS,
    )
    allow_anonymous_network: bool = setting(
        Boolean(),
        False,
        "Whether it may be bound to an address that other machines reach although none of its clients has to say who "
        "it is. Otherwise such a listener needs an authenticator, or asks for certificates.",
        how=How.NEW_CONNECTIONS,
    )
    tcp_options: TcpOptions = section(TcpOptions, "The sockets.", how=How.NEW_CONNECTIONS)


@dataclass(frozen=True, slots=True)
class TcpListener(ListenerConfig):
    """MQTT over TCP or a Unix socket."""


@dataclass(frozen=True, slots=True)
class SslListener(ListenerConfig):
    bind: Address | UnixAddress = setting(
        ListenerBind(), Address("127.0.0.1", 8883), "Address to listen on; a port alone means every IPv4 interface."
    )
    ssl_options: SslOptions = section(SslOptions, "TLS.", how=How.NEW_CONNECTIONS)


@dataclass(frozen=True, slots=True)
class WsListener(ListenerConfig):
    bind: Address | UnixAddress = setting(
        ListenerBind(), Address("127.0.0.1", 8083), "Address to listen on; a port alone means every IPv4 interface."
    )
    websocket: WebsocketOptions = section(WebsocketOptions, "WebSocket.", how=How.NEW_CONNECTIONS)


@dataclass(frozen=True, slots=True)
class WssListener(ListenerConfig):
    bind: Address | UnixAddress = setting(
        ListenerBind(), Address("127.0.0.1", 8084), "Address to listen on; a port alone means every IPv4 interface."
    )
    ssl_options: SslOptions = section(SslOptions, "TLS.", how=How.NEW_CONNECTIONS)
    websocket: WebsocketOptions = section(WebsocketOptions, "WebSocket.", how=How.NEW_CONNECTIONS)


@dataclass(frozen=True, slots=True)
class Listeners:
    tcp: Mapping[str, TcpListener] = named_sections(
        TcpListener, ("default",), "MQTT over TCP. The listener `default` is there unless it is switched off."
    )
    ssl: Mapping[str, SslListener] = named_sections(SslListener, (), "MQTT over TLS.")
    ws: Mapping[str, WsListener] = named_sections(WsListener, (), "MQTT over WebSocket.")
    wss: Mapping[str, WssListener] = named_sections(WssListener, (), "MQTT over WebSocket over TLS.")


def every_listener(listeners: Listeners) -> list[tuple[str, str, ListenerConfig]]:
    """With its kind and name."""
    kinds: dict[str, Mapping[str, ListenerConfig]] = {
        "tcp": listeners.tcp,
        "ssl": listeners.ssl,
        "ws": listeners.ws,
        "wss": listeners.wss,
    }
    return [(kind, name, each) for kind, named in kinds.items() for name, each in named.items()]


def enabled(listeners: Listeners) -> list[tuple[str, str, ListenerConfig]]:
    """With its kind and name."""
    return [one for one in every_listener(listeners) if one[2].enable]
