"""Clients: what is asked of them, and answers. Names are EMQX's; times are microseconds since the epoch."""

from collections.abc import Sequence
from typing import Annotated, ClassVar, Final

import msgspec

from heliograph.control.columns import (
    DETAILED,
    EVERYWHERE,
    ON_REQUEST,
    Column,
    Fact,
    FactKind,
    In,
    Time,
    or_infinity,
    or_none,
)
from heliograph.control.proto_v1.bans import BanRow
from heliograph.rpc.asks import ACTS, LISTED, OWNER, SUMMED, Ask, ListAsk
from heliograph.rpc.methods import Args


class ClientId(Args, frozen=True):
    """One client."""

    clientid: str


class ClientsFilter(Args, frozen=True):
    """Which clients are wanted; what is empty, 0 or None does not matter. Of a client that is away less is known.

    Attributes:
        clientids: One of these.
        usernames: One of these.
        clientid_like: A part of the client id.
        username_like: A part of the user name.
        ip: The address that it connects from.
        listener: The listener, as `tcp:default`.
        created_from: Whose session began then or later; the others alike.
        min_queue: For which at least so many messages wait.
        min_dropped: That did not get at least so many.
    """

    clientids: list[str] | None = None
    usernames: list[str] | None = None
    clientid_like: str = ""
    username_like: str = ""
    ip: str = ""
    listener: str = ""
    zone: str = ""
    connected: bool | None = None
    clean_start: bool | None = None
    proto_ver: int | None = None
    created_from: int = 0
    created_until: int = 0
    connected_from: int = 0
    connected_until: int = 0
    min_queue: int = 0
    min_dropped: int = 0


class ClientsPage(Args, frozen=True):
    """A page of clients, the newest first.

    Attributes:
        before: The `at` of the client that the last page ended with; 0 to begin. It stays valid while the node runs.
        skip: Pass over so many that are wanted.
        limit: The most that are listed; 0 for all.
    """

    wanted: ClientsFilter = ClientsFilter()
    before: int = 0
    skip: int = 0
    limit: int = 0


class TopClients(Args, frozen=True):
    """The clients that have most of something, the one with the most first; clients that have none of it are left out.

    Attributes:
        by: What is counted: `backlog` (messages that wait), `backlog_bytes`, `behind` (for how long some may wait in
            storage), `drops`, `inflight`, `subscriptions` or `unsent_bytes`.
        below_count: The `count` of the row that the last page ended with, and
        below_at: its `at`: what stands behind it is listed. 0 to begin. They stay valid while the node runs.
    """

    by: str
    wanted: ClientsFilter = ClientsFilter()
    limit: int = 100
    below_count: int = 0
    below_at: int = 0


class DisconnectsWanted(Args, frozen=True):
    """The newest disconnects of a client, so many at the most.

    Attributes:
        before: The `number` of the row that the last page ended with; 0 to begin.
    """

    clientid: str
    limit: int = 100
    before: int = 0


class DisconnectRow(msgspec.Struct, frozen=True):
    """The end of a connection.

    Attributes:
        reason: As the hook point `client.disconnected` has it.
        peername: The address and port from where it was connected.
        number: Where it stands among those of all clients since the node started.
    """

    at: Time
    reason: str
    connected_at: Time
    peername: str
    listener: str
    proto_ver: int
    number: Annotated[int, Fact(is_shown=False)] = 0


class RefusedAttempt(msgspec.Struct, frozen=True):
    """Something that a client was refused, once or more often.

    Attributes:
        at: When it was the last time.
        what: `connect` or `subscribe`.
        reason: As the name of a reason code, or `exclusive_taken`.
        about: The user name of a CONNECT, the filter of a SUBSCRIBE.
        peerhost: Where the last one came from.
    """

    at: Time
    first_at: Time
    what: str
    reason: str
    about: str
    peerhost: str
    count: int


class ClientRefusals(msgspec.Struct, frozen=True):
    """What keeps a client out, or kept it from something, as far as the node remembers it since it started.

    Attributes:
        ban: The ban that holds for it, as far as its address and user name are known.
        refused: What it was refused, the newest first.
        sentences: The same in words; none where there is neither.
    """

    ban: BanRow | None
    refused: list[RefusedAttempt]
    sentences: list[str]


class ClientLife(msgspec.Struct, frozen=True, array_like=True):
    """A session.

    Attributes:
        expiry_interval: Seconds that it outlives its connection; 4294967295 for ever.
        disconnected_at: Since when its client is away; None while that is connected.
        durable: Whether it survives the broker.
        asleep: Whether it is on the disk only at present.
    """

    expiry_interval: int
    created_at: int | None
    disconnected_at: int | None
    durable: bool
    asleep: bool


class ClientHeld(msgspec.Struct, frozen=True, array_like=True):
    """What a session holds, as far as it is in memory.

    Attributes:
        inflight_cnt: Messages that are on their way to the client; None if the session has to be read for that.
        mqueue_len: Messages that wait for it in memory; those that are read from the disk for it are not among them.
        mqueue_max: 0 for any number, as for `mqueue_bytes_max` and `awaiting_rel_max`.
        awaiting_rel_cnt: Messages at QoS 2 that it has not released.
        await_rel_given_up: Messages at QoS 2 that were not released in time.
    """

    mountpoint: str = ""
    subscriptions_cnt: int | None = None
    shared_subscriptions_cnt: int = 0
    inflight_cnt: int | None = None
    inflight_max: int = 0
    mqueue_len: int | None = None
    mqueue_max: int = 0
    mqueue_bytes: int | None = None
    mqueue_bytes_max: int = 0
    awaiting_rel_cnt: int | None = None
    awaiting_rel_max: int = 0
    await_rel_given_up: int = 0


class ClientDrops(msgspec.Struct, frozen=True, array_like=True):
    """Messages that a client did not get since its session began, by reason."""

    queue_full: int = 0
    qos0_msg: int = 0
    expired: int = 0
    too_large: int = 0
    not_authorized: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.expired + self.queue_full + self.too_large + self.qos0_msg + self.not_authorized

    @property
    def by_reason(self) -> dict[str, int]:
        """All reasons with their counts; empty if nothing was dropped."""
        return msgspec.structs.asdict(self) if self.total else {}


class ConnectionFacts(msgspec.Struct, frozen=True, array_like=True):
    """The connection of a client.

    Attributes:
        clean_start: Whether the client asked for a new session.
        connected_at: None while it is away.
        subscriptions_max: A large number for no limit; -1 if it is not known.
    """

    username: str | None = None
    ip_address: str = ""
    port: int | None = None
    proto_name: str | None = None
    proto_ver: int | None = None
    keepalive: int | None = None
    clean_start: bool | None = None
    connected_at: int | None = None
    listener: str = ""
    zone: str = ""
    enable_authn: bool | None = None
    subscriptions_max: int = -1
    is_superuser: bool = False
    client_attrs: dict[str, str] | None = None

    @property
    def is_open(self) -> bool:
        """True while the client is connected."""
        return self.connected_at is not None

    @property
    def attributes(self) -> dict[str, str]:
        """What the operator or an authenticator made of the client."""
        return self.client_attrs or {}


class ClientTraffic(msgspec.Struct, frozen=True, array_like=True):
    """What went over the connection of a client; None while it is away. See `session.traffic.Traffic`.

    Attributes:
        unsent_bytes: What waits for the client to read.
    """

    recv_oct: int | None = None
    recv_cnt: int | None = None
    recv_pkt: int | None = None
    recv_qos0: int = 0
    recv_qos1: int = 0
    recv_qos2: int = 0
    send_oct: int | None = None
    send_cnt: int | None = None
    send_pkt: int | None = None
    send_qos0: int = 0
    send_qos1: int = 0
    send_qos2: int = 0
    unsent_bytes: int | None = None

    @property
    def received(self) -> int | None:
        """Messages that the client published."""
        return None if self.recv_oct is None else self.recv_qos0 + self.recv_qos1 + self.recv_qos2

    @property
    def sent(self) -> int | None:
        """Messages that it was sent."""
        return None if self.send_oct is None else self.send_qos0 + self.send_qos1 + self.send_qos2


class ClientRow(msgspec.Struct, frozen=True, array_like=True):
    """A client with a session, connected or away, as `channel.client_listing.ClientRows` makes it.

    The row of a session that is on the disk only ends after `life`, that of a client that is away after `drops`. A new
    fact stands at the end of its group.

    Attributes:
        at: No time: its mark, which `before` of the next page takes.
        behind_since: Since when messages for it may wait in storage; None if none are known to.
    """

    at: int
    behind_since: int | None
    clientid: str
    life: ClientLife
    held: ClientHeld = ClientHeld()
    drops: ClientDrops = ClientDrops()
    connection: ConnectionFacts = ConnectionFacts()
    traffic: ClientTraffic = ClientTraffic()

    # EMQX has these. Bridges and expired sessions are no clients here; an Erlang process has a mailbox and counts
    # reductions, which a session here does not.
    is_bridge: ClassVar[bool] = False
    is_expired: ClassVar[bool] = False
    mailbox_len: ClassVar[int] = 0
    reductions: ClassVar[int] = 0

    @property
    def dropped_total(self) -> int | None:
        """Messages that it did not get; None if its session is on the disk only."""
        return None if self.life.asleep else self.drops.total


class ClientDetails(msgspec.Struct, frozen=True):
    """Everything that is known of a client.

    Attributes:
        client: As it is listed.
        sockname: Our address that it is connected to.
        common_name: Of its certificate.
        subject: Of its certificate.
        will_topic: The topic of its will, if it has one.
        will_is_delayed: It has left, and its will is yet to be published.
        refused: Its ban, and what it was refused lately, in words.
    """

    client: ClientRow
    sockname: str = ""
    common_name: str | None = None
    subject: str | None = None
    will_topic: str | None = None
    will_is_delayed: bool = False
    refused: tuple[str, ...] = ()


class RankedClient(msgspec.Struct, frozen=True, array_like=True):
    """A client in a list that is sorted by how much it has of something.

    Attributes:
        count: How much that was when the list was made; of `behind`, a number that is higher the longer that is.
        at: Where it stands among the clients.
        client: None if its session has ended since, or is on the disk only.
    """

    count: int
    at: int
    client: "ClientRow | None"


class ClientsCount(msgspec.Struct, frozen=True):
    """How many clients are wanted."""

    count: int


class ClientIds(Args, frozen=True):
    """Several clients."""

    clientids: list[str]


class NewKeepalive(Args, frozen=True):
    """A keepalive for a connected client, in seconds; 0 for none."""

    clientid: str
    interval: int


class DecisionRow(msgspec.Struct, frozen=True):
    """A decision about a client that its connection remembers.

    Attributes:
        access: `publish` or `subscribe`.
        result: `allow` or `deny`.
        updated_at: When it was made.
    """

    access: str
    qos: int
    retain: bool
    topic: str
    result: str
    updated_at: Annotated[int, Fact("updated_time", answered=lambda at_us: at_us // 1000)]


class QueueWanted(Args, frozen=True):
    """Messages of a client that wait for it, or are on their way to it.

    Attributes:
        inflight: Those on their way, in the order in which they were sent.
        position: The one of the last row that was read; empty to begin.
        limit: How many at most.
        payload_max: Bytes of payloads altogether after which the list ends early; a longer payload is cut. So it does
            after some megabytes of topics.
    """

    clientid: str
    inflight: bool = False
    position: str = ""
    limit: int = 100
    payload_max: int = 1 << 20


class QueuedMessage(msgspec.Struct, frozen=True):
    """A message of a client that it has not acknowledged, or not got.

    Attributes:
        position: Where it stands.
        msgid: In hexadecimal digits.
        publish_at: Microseconds since the epoch; milliseconds in the API.
        inserted_at: Since when it waits, or when it was sent: microseconds since the epoch; nanoseconds in the API.
        priority: Of its queue.
        payload_bytes: How long its payload is, of which `payload` may be the beginning.
    """

    position: Annotated[str, Fact(is_shown=False)]
    msgid: Annotated[str, Fact(answered=str.upper)]
    topic: str
    qos: int
    publish_at: Annotated[int, Fact(answered=lambda at_us: at_us // 1000)]
    from_clientid: str
    from_username: Annotated[str | None, Fact(unknown="")]
    inserted_at: Annotated[int, Fact(answered=lambda at_us: str(at_us * 1000), answers=str)]
    priority: Annotated[int, Fact(is_shown=False)]
    payload: Annotated[bytes, Fact(is_shown=False)]
    payload_bytes: int = 0


class Kicked(msgspec.Struct, frozen=True):
    """A client whose session was ended.

    Attributes:
        was_connected: Whether it was connected.
    """

    clientid: str
    was_connected: bool


CLIENTS_FORGET_DECISIONS = Ask("clients.forget_decisions", ClientId, ClientId, OWNER, ACTS)
CLIENTS_SHOW = Ask("clients.show", ClientId, ClientDetails, OWNER)
CLIENTS_KICK = Ask("clients.kick", ClientId, Kicked, OWNER, ACTS)
CLIENTS_KICK_ALL = ListAsk("clients.kick_all", ClientIds, Kicked, SUMMED, ACTS)
CLIENTS_KEEPALIVE = Ask("clients.keepalive", NewKeepalive, ClientId, OWNER, ACTS)
CLIENTS_QUEUE = ListAsk("clients.queue", QueueWanted, QueuedMessage, OWNER)
CLIENTS_DECISIONS = ListAsk("clients.decisions", ClientId, DecisionRow, OWNER)
CLIENTS_LIST = ListAsk("clients.list", ClientsPage, ClientRow, LISTED)
CLIENTS_COUNT = ListAsk("clients.count", ClientsFilter, ClientsCount, SUMMED)
CLIENTS_ROW = Ask("clients.row", ClientId, ClientRow, OWNER)
CLIENTS_TOP = ListAsk("clients.top", TopClients, RankedClient, LISTED)
CLIENTS_REFUSALS = Ask("clients.refusals", ClientId, ClientRefusals, LISTED)
CLIENTS_DISCONNECTS = ListAsk("clients.disconnects", DisconnectsWanted, DisconnectRow, LISTED)


_NO_LIMIT: Final = 0x7FFFFFFF


def _bounded(number: int) -> object:
    return number if 0 <= number < _NO_LIMIT else "infinity"


# In the order in which `ctl` lists them.
CLIENT: Final[Sequence[Column]] = (
    Column("clientid", "Client id", FactKind.TEXT, shown=EVERYWHERE),
    Column("username", "User", FactKind.TEXT, shown=EVERYWHERE, field="connection.username"),
    Column("connected", "Connected", FactKind.FLAG, shown=EVERYWHERE, field="connection.is_open"),
    Column("ip_address", "Address", FactKind.TEXT, shown=EVERYWHERE, answered=or_none, field="connection.ip_address"),
    Column("port", "Port", shown=ON_REQUEST, answered=or_none, field="connection.port"),
    Column("listener", "Listener", FactKind.TEXT, shown=EVERYWHERE, answered=or_none, field="connection.listener"),
    Column("zone", "Zone", FactKind.TEXT, shown=ON_REQUEST, answered=or_none, field="connection.zone"),
    Column("mountpoint", "Mount point", FactKind.TEXT, shown=ON_REQUEST, field="held.mountpoint"),
    Column("proto_name", "Protocol", FactKind.TEXT, unknown="MQTT", field="connection.proto_name"),
    Column("proto_ver", "MQTT", shown=EVERYWHERE, answered=or_none, field="connection.proto_ver"),
    Column("keepalive", "Keepalive", unit="s", shown=ON_REQUEST, unknown=0, field="connection.keepalive"),
    Column(
        "clean_start", "Clean start", FactKind.FLAG, shown=ON_REQUEST, unknown=False, field="connection.clean_start"
    ),
    Column("expiry_interval", "Expiry", unit="s", shown=ON_REQUEST, field="life.expiry_interval"),
    Column("created_at", "Created", FactKind.TIME, shown=ON_REQUEST, field="life.created_at"),
    Column("connected_at", "Connected since", FactKind.TIME, shown=ON_REQUEST, field="connection.connected_at"),
    Column(
        "disconnected_at",
        "Away since",
        FactKind.TIME,
        shown=ON_REQUEST,
        field="life.disconnected_at",
        unknown=msgspec.UNSET,
    ),
    Column("subscriptions_cnt", "Subscriptions", shown=EVERYWHERE, unknown=0, field="held.subscriptions_cnt"),
    Column("inflight_cnt", "In flight", unit="messages", shown=EVERYWHERE, unknown=0, field="held.inflight_cnt"),
    Column("mqueue_len", "Backlog", unit="messages", shown=EVERYWHERE, unknown=0, field="held.mqueue_len"),
    Column("mqueue_bytes", "Size of the backlog", unit="bytes", shown=In.LIST | In.DETAILS, field="held.mqueue_bytes"),
    Column("mqueue_dropped", "Drops", unit="messages", shown=EVERYWHERE, field="dropped_total", unknown=0),
    Column(
        "awaiting_rel_cnt",
        "Awaiting PUBREL",
        unit="messages",
        shown=ON_REQUEST,
        unknown=0,
        field="held.awaiting_rel_cnt",
    ),
    Column("durable", "Durable", FactKind.FLAG, shown=EVERYWHERE, field="life.durable"),
    Column("asleep", "On the disk only", FactKind.FLAG, shown=ON_REQUEST, field="life.asleep"),
    Column("recv_msg", "Received", unit="messages", shown=ON_REQUEST, field="traffic.received", unknown=0),
    Column("send_msg", "Sent", unit="messages", shown=ON_REQUEST, field="traffic.sent", unknown=0),
    Column("behind_since", "Behind since", FactKind.TIME, shown=ON_REQUEST),
    Column("is_superuser", "Superuser", FactKind.FLAG, shown=DETAILED, field="connection.is_superuser"),
    Column("client_attrs", "Attributes", FactKind.MAP, shown=DETAILED, field="connection.attributes"),
    Column("inflight_max", "In flight at most", unit="messages", shown=DETAILED, field="held.inflight_max"),
    Column(
        "mqueue_max", "Backlog at most", unit="messages", shown=DETAILED, answered=or_infinity, field="held.mqueue_max"
    ),
    Column(
        "mqueue_bytes_max", "Size of the backlog at most", unit="bytes", shown=In.DETAILS, field="held.mqueue_bytes_max"
    ),
    Column("dropped", "Drops by reason", FactKind.MAP, "messages", In.DETAILS, field="drops.by_reason"),
    Column("shared_subscriptions_cnt", "Shared subscriptions", shown=In.DETAILS, field="held.shared_subscriptions_cnt"),
    Column(
        "awaiting_rel_max",
        "Awaiting PUBREL at most",
        unit="messages",
        answered=or_infinity,
        field="held.awaiting_rel_max",
    ),
    Column("subscriptions_max", "Subscriptions at most", answered=_bounded, field="connection.subscriptions_max"),
    Column("enable_authn", "Authenticated", FactKind.FLAG, unknown=True, field="connection.enable_authn"),
    Column("heap_size", "Size of the backlog", unit="bytes", field="held.mqueue_bytes", unknown=0),
    Column("send_msg.dropped", "Drops", unit="messages", field="dropped_total", unknown=0),
    Column("send_msg.dropped.expired", "Expired", unit="messages", field="drops.expired"),
    Column("send_msg.dropped.queue_full", "Queue full", unit="messages", field="drops.queue_full"),
    Column("send_msg.dropped.too_large", "Too large", unit="messages", field="drops.too_large"),
    Column("recv_msg.dropped", "Not released", unit="messages", field="held.await_rel_given_up"),
    Column(
        "recv_msg.dropped.await_pubrel_timeout",
        "Not released in time",
        unit="messages",
        field="held.await_rel_given_up",
    ),
    Column("recv_oct", "Bytes received", unit="bytes", shown=DETAILED, unknown=0, field="traffic.recv_oct"),
    Column("recv_cnt", "Packets received", unit="packets", unknown=0, field="traffic.recv_cnt"),
    Column("recv_pkt", "MQTT packets received", unit="packets", unknown=0, field="traffic.recv_pkt"),
    Column("recv_msg.qos0", "Received at QoS 0", unit="messages", field="traffic.recv_qos0"),
    Column("recv_msg.qos1", "Received at QoS 1", unit="messages", field="traffic.recv_qos1"),
    Column("recv_msg.qos2", "Received at QoS 2", unit="messages", field="traffic.recv_qos2"),
    Column("send_oct", "Bytes sent", unit="bytes", shown=DETAILED, unknown=0, field="traffic.send_oct"),
    Column("send_cnt", "Packets sent", unit="packets", unknown=0, field="traffic.send_cnt"),
    Column("send_pkt", "MQTT packets sent", unit="packets", unknown=0, field="traffic.send_pkt"),
    Column("send_msg.qos0", "Sent at QoS 0", unit="messages", field="traffic.send_qos0"),
    Column("send_msg.qos1", "Sent at QoS 1", unit="messages", field="traffic.send_qos1"),
    Column("send_msg.qos2", "Sent at QoS 2", unit="messages", field="traffic.send_qos2"),
    Column("unsent_bytes", "Unsent", unit="bytes", shown=In.DETAILS, field="traffic.unsent_bytes"),
    Column("is_persistent", "Durable", FactKind.FLAG, field="life.durable"),
    Column("is_bridge", "Bridge", FactKind.FLAG),
    Column("is_expired", "Expired", FactKind.FLAG),
    Column("mailbox_len", "Mailbox"),
    Column("reductions", "Reductions"),
)
