"""Clients: what is asked of them, and answers. Names are EMQX's; times are microseconds since the epoch."""

import msgspec

from heliograph.rpc.asks import ACTS, LISTED, OWNER, Ask, ListAsk
from heliograph.rpc.methods import Args


class ClientsWanted(Args, frozen=True):
    """Which clients to list; what is empty or None does not matter.

    Attributes:
        clientid_like: A part of the client id.
        username: The whole user name.
        username_like: A part of it.
        ip: The address that it connects from.
        listener: The listener, as `tcp:default`.
        connected: Whether it is connected, or away.
        min_queue: At least so many messages wait for it.
        min_dropped: At least so many it did not get.
        limit: The most that are listed; 0 for all.
    """

    clientid_like: str = ""
    username: str | None = None
    username_like: str = ""
    ip: str = ""
    listener: str = ""
    zone: str = ""
    connected: bool | None = None
    min_queue: int = 0
    min_dropped: int = 0
    limit: int = 0


class ClientId(Args, frozen=True):
    """One client."""

    clientid: str


class ClientRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A client with a session. What its connection had is not known any more while it is away.

    Attributes:
        clean_start: Whether it asked for a new session.
        expiry_interval: Seconds that its session outlives its connection; 4294967295 for ever.
        disconnected_at: Since when it is away; None while it is connected.
        inflight_cnt: Messages that are on their way to it; None, as the others, if its session is on the disk only.
        mqueue_len: Messages that wait for it in memory; those that are read from the disk for it are not among them.
        mqueue_dropped: Messages that it did not get.
        awaiting_rel_cnt: Messages at QoS 2 that it has not released.
        durable: Whether its session survives the broker.
        asleep: Whether its session is on the disk only at present.
        recv_msg: Messages that it published on this connection; None, as the next one, while it is away.
        send_msg: Messages that it was sent on this connection.
        behind_since: Since when messages for it may wait in storage; None if none are known to.
    """

    clientid: str
    username: str | None = None
    connected: bool = False
    ip_address: str = ""
    port: int | None = None
    listener: str = ""
    zone: str = ""
    mountpoint: str = ""
    proto_ver: int | None = None
    keepalive: int | None = None
    clean_start: bool | None = None
    expiry_interval: int = 0
    created_at: int | None = None
    connected_at: int | None = None
    disconnected_at: int | None = None
    subscriptions_cnt: int | None = None
    inflight_cnt: int | None = None
    mqueue_len: int | None = None
    mqueue_bytes: int | None = None
    mqueue_dropped: int | None = None
    awaiting_rel_cnt: int | None = None
    durable: bool = False
    asleep: bool = False
    recv_msg: int | None = None
    send_msg: int | None = None
    behind_since: int | None = None


class ClientDetails(msgspec.Struct, frozen=True):
    """Everything that is known of a client.

    Attributes:
        client: As it is listed.
        sockname: Our address that it is connected to.
        common_name: Of its certificate.
        subject: Of its certificate.
        client_attrs: What the operator or an authenticator made of it.
        will_topic: The topic of its will, if it has one.
        will_is_delayed: It has left, and its will is yet to be published.
        inflight_max: So many messages may be on their way to it.
        mqueue_max: So many may wait; 0 for any number.
        mqueue_bytes_max: Of so many bytes; 0 for any number.
        dropped: Messages that it did not get, by reason.
        shared_subscriptions_cnt: How many of its subscriptions are shared.
        recv_oct: Bytes that came on this connection.
        send_oct: Bytes that were sent on it.
        unsent_bytes: Bytes that wait for it to read.
    """

    client: ClientRow
    sockname: str = ""
    common_name: str | None = None
    subject: str | None = None
    is_superuser: bool = False
    client_attrs: dict[str, str] = msgspec.field(default_factory=dict)
    will_topic: str | None = None
    will_is_delayed: bool = False
    inflight_max: int = 0
    mqueue_max: int = 0
    mqueue_bytes_max: int = 0
    dropped: dict[str, int] = msgspec.field(default_factory=dict)
    shared_subscriptions_cnt: int = 0
    recv_oct: int | None = None
    send_oct: int | None = None
    unsent_bytes: int | None = None


class Kicked(msgspec.Struct, frozen=True):
    """A client whose session was ended.

    Attributes:
        was_connected: Whether it was connected.
    """

    clientid: str
    was_connected: bool


CLIENTS_FORGET_DECISIONS = Ask("clients.forget_decisions", ClientId, ClientId, OWNER, ACTS)
CLIENTS_LIST = ListAsk("clients.list", ClientsWanted, ClientRow, LISTED)
CLIENTS_SHOW = Ask("clients.show", ClientId, ClientDetails, OWNER)
CLIENTS_KICK = Ask("clients.kick", ClientId, Kicked, OWNER, ACTS)
