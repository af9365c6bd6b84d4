"""The sources of authorization, and why a client may do something or not: what is asked, and answers."""

import msgspec

from heliograph.rpc.asks import ACTS, CONFIGURES, EQUAL, OWNER, STATE, SUMMED, Ask, ListAsk
from heliograph.rpc.methods import Args, NarrowingArgs, NoArgs


class SourceStatus(msgspec.Struct, frozen=True):
    """A source of `authorization.sources`.

    Attributes:
        type: Its type, as `mysql`.
        enable: Whether it is asked.
        state: `works`, `no rules`, `disabled`, or why it does not work.
        total: Times that it was asked, in memory or elsewhere; the others as the metrics `authorization.sources.*`.
        mean_s: How long a question to it took on average; None where none was needed.
        rates: How fast it is asked: `rate`, `rate.max`, `rate.last5m`, per second.
    """

    type: str
    enable: bool
    state: str
    total: int
    allow: int
    deny: int
    nomatch: int
    ignore: int
    error: int
    mean_s: float | None
    rates: dict[str, float] = msgspec.field(default_factory=dict)


class AuthorizationStatus(msgspec.Struct, frozen=True):
    """What holds for all clients, beside the sources.

    Attributes:
        no_match: The decision where nothing decides.
        deny_action: What happens to a client that is denied.
        is_checked: Whether clients are checked at all.
        node_cache: Its counts: `count`, `memory_bytes`, `hit`, `miss`.
    """

    no_match: str
    deny_action: str
    is_checked: bool
    node_cache: dict[str, int]


class SourceChange(Args, frozen=True):
    """A change of `authorization.sources`.

    Attributes:
        verb: `add`, `update`, `delete`, `enable`, `disable`, `move` or `order`.
        type: Which source; empty where `text` says so, and for `order`.
        text: Its settings in HOCON, for `add` and `update`.
        position: `front`, `rear`, `before:TYPE` or `after:TYPE`, for `add` and `move`.
        types: All types in their new order, for `order`.
    """

    verb: str
    type: str = ""
    text: str = ""
    position: str = "front"
    types: tuple[str, ...] = ()


class SourcesChanged(msgspec.Struct, frozen=True):
    """What a change came to.

    Attributes:
        type: The source that it was about; empty for `order`.
        types: All sources in their order now.
        revision: The revision of the configuration that it made.
        failed: By part that did not take it: why.
    """

    type: str
    types: list[str]
    revision: int
    failed: dict[str, str]


class CacheCleaning(NarrowingArgs, frozen=True):
    """Whose remembered decisions and rules to forget; empty for all clients, and answers of backends."""

    clientid: str = ""


class CacheCleaned(msgspec.Struct, frozen=True):
    """What was forgotten.

    Attributes:
        clientid: Whose decisions and rules; empty for all clients.
        answers: Answers of backends.
    """

    clientid: str
    answers: int


class ClientName(Args, frozen=True):
    """A client that is connected."""

    clientid: str


class Rechecked(msgspec.Struct, frozen=True):
    """A client whose subscriptions are checked again.

    Attributes:
        removed: Filters that it may not subscribe to any more.
    """

    clientid: str
    removed: list[str]


class ExplainWanted(Args, frozen=True):
    """Whether a client may do something, and why.

    Attributes:
        clientid: The client.
        action: `publish` or `subscribe`.
        topic: The topic, or the filter as the client writes it.
        qos: The QoS of the message, or the one that is asked for.
        retain: The retain flag of the message.
        is_described: Whether the client is as the following say; else it is the one that is connected.
        username: Its user name; None for none.
        peerhost: Its address.
        listener: Its listener, as `tcp:default`.
        zone: Its zone; that of the listener, if empty.
        cert_common_name: The common name of its certificate; None for none.
        client_attrs: Its attributes.
        is_superuser: Whether an authenticator made it a superuser.
    """

    clientid: str
    action: str
    topic: str
    qos: int = 0
    retain: bool = False
    is_described: bool = False
    username: str | None = None
    peerhost: str = ""
    listener: str = "tcp:default"
    zone: str = ""
    cert_common_name: str | None = None
    client_attrs: dict[str, str] = msgspec.field(default_factory=dict)
    is_superuser: bool = False


class ExplainedStep(msgspec.Struct, frozen=True):
    """What was asked, and what it said.

    Attributes:
        source: `superuser`, `client_info` (or what else made the ACL that the client carries), the type of a source, or
            `no_match`.
        said: `allow`, `deny`, `nomatch`, `ignore`, `error`, `no`, `disabled` or `not asked`.
        rule: The rule that decided, as it is written; empty if none did.
        place: Where the rule stands, as `/etc/heliograph/acl.conf:12`; empty if that is not known.
        why: What went wrong, or what else there is to say.
    """

    source: str
    said: str
    rule: str = ""
    place: str = ""
    why: str = ""


class Explanation(msgspec.Struct, frozen=True):
    """Whether a client may do something, and why.

    Attributes:
        clientid: The client.
        username: Its user name; None if it has none.
        peerhost: Its address.
        listener: Its listener.
        is_connected: Whether it is connected; else it was described.
        action: `publish` or `subscribe`.
        topic: What was checked: without `$delayed/N/` and `$share/GROUP/`.
        is_allowed: Whether it may.
        decided_by: The step that decided.
        steps: All steps in their order.
        deny_action: What happens to a client that is denied.
    """

    clientid: str
    username: str | None
    peerhost: str
    listener: str
    is_connected: bool
    action: str
    topic: str
    qos: int
    retain: bool
    is_allowed: bool
    decided_by: str
    steps: list[ExplainedStep]
    deny_action: str


AUTHZ_SOURCES = ListAsk("authz.sources", NoArgs, SourceStatus, SUMMED)
AUTHZ_STATUS = Ask("authz.status", NoArgs, AuthorizationStatus, SUMMED)
AUTHZ_CHANGE = Ask("authz.change", SourceChange, SourcesChanged, STATE, CONFIGURES)
AUTHZ_CACHE_CLEAN = Ask("authz.cache_clean", CacheCleaning, CacheCleaned, EQUAL, ACTS)
AUTHZ_RECHECK = Ask("authz.recheck", ClientName, Rechecked, OWNER, ACTS)
AUTHZ_EXPLAIN = Ask("authz.explain", ExplainWanted, Explanation, OWNER)
