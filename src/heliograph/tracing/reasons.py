"""Why a message waits or was dropped, in words for people."""

from typing import Final

from heliograph.session.session import Session

_WHY: Final = {
    "expired": "its expiry interval passed while it waited",
    "no_local": "the receiver published it itself and asked not to get that (no local)",
    "no_member_takes_it": "no member of the group could take it",
    "no_subscribers": "no subscription matches its topic",
    "not_authorized": "the client may not do that",
    "clears_retained": "it cleared the retained message of its topic, and goes no further",
    "session_ended": "its session ended while it waited",
    "too_large": "it is larger than the packets that the receiver takes",
}


def why_dropped(reason: str, session: Session | None = None) -> str:
    """Why a message was dropped: the reason in words, empty where it says all."""
    if reason == "not_authorized" and session is not None:
        return "the receiver may not read this topic, though its filter matches"
    if reason == "queue_full" and session is not None:
        return f"the message queue is full: {_queue(session)}, {_state(session)}"
    if reason == "qos0_msg" and session is not None:
        return f"QoS 0 does not wait: {_state(session)}"
    return _WHY.get(reason, "")


def why_queued(session: Session) -> str:
    return f"{_state(session)}; {_queue(session)}"


def _queue(session: Session) -> str:
    limit = int(session.options.max_mqueue_len)
    return (
        f"{int(session.sender.queued_count)} of {limit} wait" if limit else f"{int(session.sender.queued_count)} wait"
    )


def _state(session: Session) -> str:
    outbox = session.sender.outbox
    if outbox is None:
        return "the client is away"
    if outbox.congested:
        return "the client does not read what it is sent"
    if not session.sender.window.has_room():
        count = len(session.sender.window.deliveries)
        return f"{count} {'message is' if count == 1 else 'messages are'} unacknowledged, which is its limit"
    return "others wait before it"
