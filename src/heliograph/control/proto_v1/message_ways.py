"""What became of messages."""

from typing import Annotated

import msgspec

from heliograph.control.columns import Fact
from heliograph.rpc.asks import LISTED, ONE, Ask, ListAsk
from heliograph.rpc.methods import Args, NoArgs


class WaysWanted(Args, frozen=True):
    """`message_ways.list`: which messages, the newest first.

    Attributes:
        topic: A topic filter; empty for all.
        clientid: Those that it published or should have received; empty for all.
        since_us: Not older, in microseconds since the epoch.
        before: Older than the message with this id; empty for the newest.
        limit: How many at the most.
        outcomes: With one of these, as in `WayRow`; `dropped` stands for all where a client does not get it. Empty for
            all.
        reason: That was refused, or dropped for a receiver, for this reason; empty for all.
    """

    topic: str = ""
    clientid: str = ""
    since_us: int = 0
    before: str = ""
    limit: int = 50
    outcomes: tuple[str, ...] = ()
    reason: str = ""


class WayWanted(Args, frozen=True):
    """`message_ways.show`: the way of one message.

    Attributes:
        message_id: Its id, 32 hexadecimal digits.
        clientid: A client for which the answer says why it did not get the message; empty for none.
    """

    message_id: str
    clientid: str = ""


class WayRow(msgspec.Struct, frozen=True):
    """A row of `message_ways.list`.

    Attributes:
        at_us: When it was published.
        clientid: Who published it; empty for the broker.
        outcome: `delivered`, `unacknowledged`, `partly_delivered`, `waiting`, `not_delivered`, `no_receiver`,
            `stored`, `refused`, `taken`, `kept` or `delayed`.
        why: Why it was not delivered, in words; empty where it was.
        reason: The same as metrics call it.
        receivers: How many there were.
        delivered: How many of them have it.
        dropped: How many of them do not get it.
    """

    message_id: Annotated[str, Fact("id")]
    at_us: Annotated[int, Fact("at", time_us=1)]
    topic: str
    clientid: str
    qos: int
    retain: bool
    payload_bytes: int
    outcome: str
    why: str
    reason: str
    receivers: int
    delivered: int
    dropped: int


class WayStep(msgspec.Struct, frozen=True):
    """Something that happened before a message had receivers, or to its publisher.

    Attributes:
        after_us: How long after the PUBLISH.
        stage: `publish`, `access`, `hook`, `rule`, `store`, `route` or `answer`.
        what: What it was, as `hook_verdict`.
        who: The callback or rule; empty for the broker.
        text: What it was, in words.
        is_bad: Whether the message went no further for it, or something failed.
        policy: The validation or transformation that failed; empty where none did.
    """

    after_us: int
    stage: str
    what: str
    who: str
    text: str
    is_bad: bool = False
    policy: str = ""


class WayReceiver(msgspec.Struct, frozen=True):
    """What became of a message at one receiver.

    Attributes:
        topic_filter: That of its subscription; a shared one begins with `$share/`.
        state: `sent`, `acknowledged`, `waiting`, `unacknowledged`, `left_to_replay` or `dropped`.
        qos: At which it was sent.
        sent_count: How often it was sent.
        queued_after_us: When it began to wait, after the PUBLISH; -1 where it did not.
        sent_after_us: When it was sent first; -1 where it was not.
        received_after_us: When PUBREC came; -1 where none did.
        acknowledged_after_us: When it was acknowledged; -1 where it was not.
        dropped_after_us: When it was dropped; -1 where it was not.
        reason: Why it was dropped, as metrics call it.
        why: Why it waits, or was dropped, in words.
    """

    clientid: str
    topic_filter: str
    state: str
    qos: int
    sent_count: int = 0
    queued_after_us: int = -1
    sent_after_us: int = -1
    received_after_us: int = -1
    acknowledged_after_us: int = -1
    dropped_after_us: int = -1
    reason: str = ""
    why: str = ""


class MessageWay(msgspec.Struct, frozen=True):
    """The answer of `message_ways.show`.

    Attributes:
        username: That of its publisher; empty for none.
        expires_after_s: Its message expiry interval; -1 for none.
        is_begun: Whether its PUBLISH was recorded; otherwise it was published before that began.
        made_by: The rules that made it, one through another.
        outcome: As in `WayRow`.
        summary: What became of it, in a sentence.
        steps: Up to its receivers, and the answer to its publisher.
        receivers: Its receivers.
        left_out: Further things that happened, of which there were too many.
        asked: Why the client that was asked about did not get it, or that it did; empty for none.
        retained: Whether it is the retained message of its topic now, or why it never was; empty where it was not to
            be.
        later: The id that a delayed message has since it was published; empty for others.
    """

    message_id: Annotated[str, Fact("id")]
    at_us: Annotated[int, Fact("at", time_us=1)]
    topic: str
    clientid: str
    username: str
    qos: int
    retain: bool
    payload_bytes: int
    expires_after_s: int
    is_begun: bool
    made_by: list[str]
    outcome: str
    summary: str
    reason: str
    steps: list[WayStep]
    receivers: list[WayReceiver]
    left_out: int = 0
    asked: str = ""
    retained: str = ""
    later: str = ""


class WaysState(msgspec.Struct, frozen=True):
    """The answer of `message_ways.state`.

    Attributes:
        is_recording: Whether ways are recorded now.
        topics: Of messages to which topics.
        clients: Of messages of which publishers; empty for all.
        recorded: How many were recorded since the node began.
        missed: How many were not, since there were too many, or memory was taken.
        stored_bytes: What they take on the disk, about.
        oldest_us: From when the oldest are; 0 for none.
        retention_s: How long they are kept.
    """

    is_recording: bool
    topics: list[str]
    clients: list[str]
    recorded: int
    missed: int
    stored_bytes: int
    oldest_us: Annotated[int, Fact("oldest", time_us=1, is_null_if_empty=True)]
    retention_s: int


MESSAGE_WAYS_LIST = ListAsk("message_ways.list", WaysWanted, WayRow, LISTED)
MESSAGE_WAYS_SHOW = Ask("message_ways.show", WayWanted, MessageWay, LISTED)
MESSAGE_WAYS_STATE = Ask("message_ways.state", NoArgs, WaysState, ONE)
