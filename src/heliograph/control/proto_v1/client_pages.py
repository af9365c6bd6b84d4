"""Pages of clients: which are wanted, and their columns, as arrays to be short. Times are microseconds."""

import msgspec

from heliograph.control.proto_v1.clients import ClientId, Kicked
from heliograph.rpc.asks import ACTS, LISTED, OWNER, SUMMED, Ask, ListAsk
from heliograph.rpc.methods import Args


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

    at: int
    reason: str
    connected_at: int
    peername: str
    listener: str
    proto_ver: int
    number: int = 0


class ClientLife(msgspec.Struct, frozen=True, array_like=True):
    """A session. See `clients.ClientRow`.

    Attributes:
        asleep: Whether it is on the disk only at present.
        behind_since: Since when messages for it may wait in storage; None if none are known to.
    """

    expiry_interval: int
    created_at: int | None
    disconnected_at: int | None
    durable: bool
    asleep: bool
    behind_since: int | None = None


class ClientSizes(msgspec.Struct, frozen=True, array_like=True):
    """What a session holds. See `clients.ClientRow`.

    Attributes:
        mqueue_max: 0 for any number; `awaiting_rel_max` alike.
        await_rel_given_up: Messages at QoS 2 that were not released in time.
    """

    subscriptions_cnt: int
    shared_subscriptions_cnt: int
    inflight_cnt: int | None
    inflight_max: int
    mqueue_len: int
    mqueue_max: int
    awaiting_rel_cnt: int
    awaiting_rel_max: int
    await_rel_given_up: int
    mqueue_bytes: int


class ClientDrops(msgspec.Struct, frozen=True, array_like=True):
    """Messages that a client did not get since its session began, by reason."""

    expired: int
    queue_full: int
    too_large: int
    qos0_msg: int
    not_authorized: int


class ConnectionColumns(msgspec.Struct, frozen=True, array_like=True):
    """The connection of a client.

    Attributes:
        subscriptions_max: A large number for no limit; -1 if it is not known.
    """

    username: str | None
    ip_address: str
    port: int
    proto_name: str
    proto_ver: int
    keepalive: int
    clean_start: bool
    connected_at: int
    listener: str
    zone: str
    mountpoint: str
    enable_authn: bool
    subscriptions_max: int
    is_superuser: bool
    client_attrs: dict[str, str] | None


class ClientTraffic(msgspec.Struct, frozen=True, array_like=True):
    """What went over the connection of a client; see `session.traffic.Traffic`.

    Attributes:
        unsent_bytes: What waits for it to read.
    """

    recv_oct: int
    recv_cnt: int
    recv_pkt: int
    recv_qos0: int
    recv_qos1: int
    recv_qos2: int
    send_oct: int
    send_cnt: int
    send_pkt: int
    send_qos0: int
    send_qos1: int
    send_qos2: int
    unsent_bytes: int


class ClientColumns(msgspec.Struct, frozen=True, array_like=True):
    """A client, connected or away.

    Attributes:
        at: Where it stands among the clients; a page may begin after it.
        sizes: None if its session is on the disk only at present.
        dropped: None if nothing was.
        connection: None if it is away; `traffic` alike.
    """

    at: int
    clientid: str
    life: ClientLife
    sizes: ClientSizes | None = None
    dropped: ClientDrops | None = None
    connection: ConnectionColumns | None = None
    traffic: ClientTraffic | None = None


class RankedClient(msgspec.Struct, frozen=True, array_like=True):
    """A client in a list that is sorted by how much it has of something.

    Attributes:
        count: How much that was when the list was made; of `behind`, a number that is higher the longer that is.
        at: Where it stands among the clients.
        client: None if its session has ended since, or is on the disk only.
    """

    count: int
    at: int
    client: ClientColumns | None


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
    updated_at: int


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
        inserted_at: Since when it waits, or when it was sent.
        priority: Of its queue.
        payload_bytes: How long its payload is, of which `payload` may be the beginning.
    """

    position: str
    msgid: str
    topic: str
    qos: int
    publish_at: int
    from_clientid: str
    from_username: str | None
    inserted_at: int
    priority: int
    payload: bytes
    payload_bytes: int = 0


CLIENTS_KICK_ALL = ListAsk("clients.kick_all", ClientIds, Kicked, SUMMED, ACTS)
CLIENTS_KEEPALIVE = Ask("clients.keepalive", NewKeepalive, ClientId, OWNER, ACTS)
CLIENTS_QUEUE = ListAsk("clients.queue", QueueWanted, QueuedMessage, OWNER)
CLIENTS_DECISIONS = ListAsk("clients.decisions", ClientId, DecisionRow, OWNER)
CLIENTS_PAGE = ListAsk("clients.page", ClientsPage, ClientColumns, LISTED)
CLIENTS_COUNT = ListAsk("clients.count", ClientsFilter, ClientsCount, SUMMED)
CLIENTS_COLUMNS = Ask("clients.columns", ClientId, ClientColumns, OWNER)
CLIENTS_TOP = ListAsk("clients.top", TopClients, RankedClient, LISTED)
CLIENTS_DISCONNECTS = ListAsk("clients.disconnects", DisconnectsWanted, DisconnectRow, LISTED)
