"""What a recorded way means: what became of the message at each receiver, its outcome, and why."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from heliograph.control.proto_v1.message_ways import MessageWay, WayReceiver, WayRow, WayStep
from heliograph.mqtt import reason_codes as rc
from heliograph.tracing.reasons import why_dropped
from heliograph.tracing.verdicts import POLICY_FAILED
from heliograph.tracing.ways import way as steps
from heliograph.tracing.ways.chunks import WayRecord

DELIVERED: Final = "delivered"
UNACKNOWLEDGED: Final = "unacknowledged"
PARTLY: Final = "partly_delivered"
WAITING: Final = "waiting"
NOT_DELIVERED: Final = "not_delivered"
NO_RECEIVER: Final = "no_receiver"
STORED: Final = "stored"
REFUSED: Final = "refused"
TAKEN: Final = "taken"
KEPT: Final = "kept"
DELAYED: Final = "delayed"
OUTCOMES: Final = (
    DELIVERED,
    UNACKNOWLEDGED,
    PARTLY,
    WAITING,
    NOT_DELIVERED,
    NO_RECEIVER,
    STORED,
    REFUSED,
    TAKEN,
    KEPT,
    DELAYED,
)
DROPPED: Final = "dropped"  # asked for: any outcome where a client does not get it, or none does
_DROPPED: Final = (PARTLY, NOT_DELIVERED, NO_RECEIVER, REFUSED)

_STORED: Final = "no subscription of a session that was there matched; it is stored for durable sessions that are away"
_LEFT: Final = "it waits in storage: the client gets it when it is back, or when what waits before it is acknowledged"
_NOBODY: Final = "no subscription matches its topic, neither of a session that was there nor of one that is away"
_EXPIRED: Final = "its expiry interval passed while it waited in storage"
_IN_FLIGHT: Final = "it is in flight: sent, and not acknowledged so far"
_NOT_ANSWERED: Final = "it was sent, and its session ended before it was acknowledged"
_ENDED: Final = "session_ended"
_NAMED_MAX: Final = 3  # sessions for which it waits
_ID_DIGITS: Final = 32
_UNKEPT: Final = {
    "cleared": "it cleared the retained message of its topic",
    "payload_size": "it is not retained: its payload is larger than retainer.max_payload_size",
    "rate": "it is not retained: more messages come than retainer.max_publish_rate allows",
    "full": "it is not retained: the store of retained messages is full (retainer.backend)",
    "memory": "it is not retained: memory is short",
}
_REFUSED: Final = "refused: "  # as `verdicts.in_words` has it, before the reason
_HAS_IT: Final = ("sent", "acknowledged")
_WAITS: Final = ("waiting", "left_to_replay")
_CAME: Final = {
    "retained": "it comes from the retained store, for a subscription that was made then",
    "replayed": "it comes from storage, to a durable session",
}
_WILLS: Final = {
    "delayed": "it is a will that waits for its delay",
    "taken_back": "it is a will that is not published: the client came back in time",
    "banned": "it is a will that is not published: its client is banned",
    "not_authorized": "it is a will that is not published: its client may not publish to this topic",
    "published": "it is a will that is published now",
}


class ToldReceiver:
    """Gathers what became of a message at one receiver."""

    def __init__(self, clientid: str) -> None:
        self.clientid = clientid
        self.filter = ""
        self.state = ""
        self.qos = 0
        self.sent_count = 0
        self.queued = self.sent = self.received = self.acknowledged = self.dropped = -1
        self.reason = ""
        self.why = ""

    def take(self, after_us: int, what: int, text: str, number: int) -> None:
        """One more step."""
        if what in (steps.SENT, steps.SENT_AGAIN):
            self.filter, self.qos, self.sent_count = text, number, self.sent_count + 1
            self.sent = after_us if self.sent < 0 else self.sent
            self.state, self.why = (UNACKNOWLEDGED, _IN_FLIGHT) if number else ("sent", "")
        elif what in (steps.WAITS, steps.LEFT):
            self.filter, self.qos, self.queued = text, number, after_us
            self.state = "waiting" if what == steps.WAITS else "left_to_replay"
            self.why = "" if what == steps.WAITS else _LEFT
        elif what == steps.DROPPED:
            self.state, self.reason, self.dropped, self.qos = "dropped", text, after_us, number
            self.why = why_dropped(text)
        elif what == steps.WHY:
            self.why = text
        elif what == steps.RECEIVED:
            self.received = after_us
        elif what == steps.ACKNOWLEDGED:
            self.state, self.acknowledged, self.why = "acknowledged", after_us, ""

    def row(self) -> WayReceiver:
        """The row of an answer."""
        times = (self.queued, self.sent, self.received, self.acknowledged, self.dropped)
        facts = (self.clientid, self.filter, self.state, self.qos, self.sent_count)
        return WayReceiver(*facts, *times, self.reason, self.why)


class WayText:
    """What a record means; made for an answer."""

    def __init__(self, record: WayRecord) -> None:
        self.record = record
        self.steps: list[WayStep] = []
        receivers: dict[str, ToldReceiver] = {}
        self.later = ""  # the id that what was held has since it was published
        self.unkept = ""  # why it is not retained, though it was to be
        self._gone = self._unpublished = ""
        self._due_us = 0
        self._failed: WayStep | None = None  # of the callback whose verdict comes next
        self.is_stored = False
        self._is_refused = self._is_routed = self._is_taken = False
        for after_us, what, who, text, number in record.steps:
            if steps.is_of_receiver(what):
                receivers.setdefault(who, ToldReceiver(who)).take(after_us, what, text, number)
            elif (step := self._step(after_us, what, who, text, number)) is not None:
                self.steps.append(step)
        self.receivers = [one.row() for one in receivers.values()]
        self.outcome, self.reason, self.why = self._outcome()

    @property
    def message_id(self) -> str:
        """The message id in hexadecimal digits."""
        return f"{self.record.id_high:016x}{self.record.id_low:016x}"

    @property
    def is_routed_or_stored(self) -> bool:
        """Whether it could reach a client, as far as it went."""
        return self.outcome not in (REFUSED, TAKEN, DELAYED) and self._gone != "clears_retained"

    @property
    def was_retained(self) -> bool:
        """Whether it was given to the store of retained messages."""
        return any(step.what == "retained" for step in self.steps)

    @property
    def is_unclaimed(self) -> bool:
        """Whether storage has it and no client got it so far: `waits_for` says who may."""
        return self.outcome == STORED

    @property
    def _is_clearing(self) -> bool:
        return self._gone == "clears_retained" or self.unkept == _UNKEPT["cleared"]

    def end_waits(self, has_ended: Callable[[str, int], bool]) -> None:
        """Say of receivers whose sessions have ended since then that nothing waits for them, nor for their answer.

        Args:
            has_ended: Gets a client id and when the message came to its session.
        """
        at_us, ended = self.record.at_us, False
        for at, one in enumerate(self.receivers):
            if one.state == UNACKNOWLEDGED and has_ended(one.clientid, at_us + one.sent_after_us):
                ended = True
                self.receivers[at] = msgspec.structs.replace(one, why=_NOT_ANSWERED)
            if one.state in _WAITS and has_ended(one.clientid, at_us + one.queued_after_us):
                ended = True
                self.receivers[at] = msgspec.structs.replace(
                    one, state="dropped", reason=_ENDED, why=why_dropped(_ENDED)
                )
        if ended:
            self.outcome, self.reason, self.why = self._outcome()

    def waits_for(self, clientids: Sequence[str], passed_by: Sequence[str], now_us: int) -> None:
        """Say for which sessions that are away a stored message waits that no other receiver has.

        Args:
            passed_by: Those for which it does not wait, since it would come to them at QoS 0.
        """
        expiry_s = self.record.expiry_s
        if not clientids and passed_by:
            self.outcome, self.reason = NOT_DELIVERED, "qos0_msg"
            self.why = f"QoS 0 does not wait for {_named(passed_by)} (mqtt.mqueue_store_qos0)"
        elif not clientids:
            self.outcome = KEPT if self.was_retained or self._is_clearing else NO_RECEIVER
            self.reason, self.why = "no_subscribers", _NOBODY
        elif expiry_s >= 0 and self.record.at_us + expiry_s * 1_000_000 <= now_us:
            self.outcome, self.reason, self.why = NOT_DELIVERED, "expired", _EXPIRED
        else:
            self.why = f"it waits in storage for {_named(clientids)}, away or behind"

    def is_wanted(self, outcomes: Sequence[str], reason: str) -> bool:
        """Whether it has one of these outcomes, and this reason at some client; empty for any."""
        if outcomes and self.outcome not in outcomes and not (DROPPED in outcomes and self.outcome in _DROPPED):
            return False
        return not reason or reason == self.reason or any(one.reason == reason for one in self.receivers)

    def row(self) -> WayRow:
        """It as a row of a list."""
        one = self.record
        delivered = sum(receiver.state in _HAS_IT for receiver in self.receivers)
        dropped = sum(receiver.state == "dropped" for receiver in self.receivers)
        return WayRow(
            self.message_id,
            one.id_high,
            one.topic,
            one.clientid,
            one.qos,
            one.retain,
            one.payload_bytes,
            self.outcome,
            self.why,
            self.reason,
            len(self.receivers),
            delivered,
            dropped,
        )

    def whole(self, asked: str = "", retained: str = "") -> MessageWay:
        """All of it."""
        one = self.record
        return MessageWay(
            self.message_id,
            one.id_high,
            one.topic,
            one.clientid,
            one.username or "",
            one.qos,
            one.retain,
            one.payload_bytes,
            one.expiry_s,
            one.is_begun,
            list(one.made_by),
            self.outcome,
            self._summary(),
            self.reason,
            self.steps,
            self.receivers,
            one.left_out_count,
            asked,
            self.unkept or retained,
            self.later,
        )

    def _step(self, after_us: int, what: int, who: str, text: str, number: int) -> WayStep | None:
        if what == steps.VERDICT:
            return self._verdict(after_us, who, text, number)
        if what in (steps.RULE, steps.ACTION):
            name = "rule_evaluated" if what == steps.RULE else "rule_action"
            return WayStep(after_us, "rule", name, who, text, "failed:" in text)
        if what == steps.CHANGED:
            message = f"it has the topic {text} now" if text else "it has another content now"
            return WayStep(after_us, "hook", "changed", "", message)
        if what == steps.GONE:
            self._gone = text
            if any(step.is_bad and step.text.endswith(text) for step in self.steps):  # the hook that says so
                return None
            stage = "access" if text == "not_authorized" else "route" if text == "no_subscribers" else "hook"
            return WayStep(after_us, stage, "dropped", "", why_gone(text), text != "clears_retained")
        if what == steps.REFUSED:
            self._is_refused = True
            return WayStep(after_us, "publish", "refused", "", f"its PUBLISH was refused: {text}", True)
        if what in (steps.AUTHORIZED, steps.DELAYED, steps.LATER, steps.RETAINED):
            return self._of_later_or_kept(after_us, what, text, number)
        return self._of_broker(after_us, what, text, number)

    def _verdict(self, after_us: int, who: str, text: str, number: int) -> WayStep | None:
        """What a callback said; that of validations or transformations comes behind the names of those that failed."""
        if number == POLICY_FAILED:
            message = f"{text} failed, and the message goes on"
            self._failed = WayStep(after_us, "hook", "hook_verdict", who, message, False, text)
            return self._failed
        failed, self._failed = self._failed, None
        if self._due_us and text == "taken":  # by what holds it
            self._is_taken = True
            return None
        if failed is not None and failed.who == who and text.startswith(_REFUSED):
            self.steps = [step for step in self.steps if step is not failed]
            message = f"refused by {failed.policy}: {text.removeprefix(_REFUSED)}"
            return WayStep(after_us, "hook", "hook_verdict", who, message, True, failed.policy)
        is_bad = text.startswith(("refused", "failed"))
        self._is_taken = self._is_taken or text.startswith("took it") or text == "taken"
        return WayStep(after_us, "hook", "hook_verdict", who, text or "let it pass", is_bad)

    def _of_later_or_kept(self, after_us: int, what: int, text: str, number: int) -> WayStep:
        if what == steps.AUTHORIZED:
            message = "access: allowed" if number else "access: allowed, since nothing restricts it"
            return WayStep(after_us, "access", "authorized", "", message)
        if what == steps.DELAYED:
            self._due_us = number
            return WayStep(after_us, "hook", "delayed", "", f"it is held until {_time(number)}")
        if what == steps.LATER:
            is_later = len(text) == _ID_DIGITS
            self.later, self._unpublished = (text, self._unpublished) if is_later else (self.later, text)
            message = f"it is published now, as message {text}" if is_later else f"it is not published: {text}"
            return WayStep(after_us, "publish", "later", "", message, not is_later)
        if text:
            self.unkept = _UNKEPT.get(text, f"it is not retained: {text}")
            return WayStep(after_us, "store", "unretained", "", self.unkept, text != "cleared")
        return WayStep(after_us, "store", "retained", "", "given to the store of retained messages")

    def _of_broker(self, after_us: int, what: int, text: str, number: int) -> WayStep:
        if what == steps.STORED:
            self.is_stored = True
            return WayStep(after_us, "store", "stored", "", "given to storage")
        if what == steps.COMMITTED:
            message = f"the disk refused it: {_code(number)}" if number else "it is on the disk"
            return WayStep(after_us, "store", "committed", "", message, number != 0)
        if what == steps.ROUTED:
            self._is_routed = True
            count = "very many" if number < 0 else "no" if number == 0 else str(number)
            message = f"{count} subscribed topic filter{'' if number == 1 else 's'} match{'es' if number == 1 else ''}"
            return WayStep(after_us, "route", "routed", "", message)
        if what == steps.ANSWERED:
            self._is_refused = self._is_refused or number >= rc.UNSPECIFIED_ERROR
            is_bad = number >= rc.UNSPECIFIED_ERROR
            message = f"its publisher was answered: {_code(number)}"
            return WayStep(after_us, "answer", "answered", "", message, is_bad)
        if what == steps.WILL:
            self._is_refused = self._is_refused or text in ("taken_back", "banned", "not_authorized")
            return WayStep(
                after_us, "publish", "will", "", _WILLS.get(text, text), text in ("banned", "not_authorized")
            )
        return WayStep(after_us, "store", "came_again", "", _CAME.get(text, text))

    def _outcome(self) -> tuple[str, str, str]:
        """The outcome, why in one word where there is one, and why in words."""
        states = [one.state for one in self.receivers]
        bad = [one for one in self.receivers if one.state == "dropped" and one.reason != "no_local"]
        if states:
            return self._of_receivers(states, bad)
        if self._is_refused or self._gone == "not_authorized":
            return REFUSED, self._gone, self._first_bad()
        if self._gone == "clears_retained":
            return KEPT, self._gone, why_gone(self._gone)
        if self._gone == "no_subscribers" or (self._is_routed and not self.is_stored):
            is_kept = self.was_retained or self._is_clearing
            return KEPT if is_kept else NO_RECEIVER, "no_subscribers", why_gone("no_subscribers")
        if self._gone:
            return REFUSED, self._gone, self._first_bad()
        if self.is_stored:
            return STORED, "", _STORED
        if self._due_us or self.later or self._unpublished:
            return self._outcome_of_delayed()
        if self._is_taken:
            return TAKEN, "", "a callback has taken it"
        if not self.record.has_id and self.record.is_begun:
            return REFUSED, "", self._first_bad() or "its PUBLISH was not taken: the connection ended"
        return TAKEN, "", "it is under way"

    def _outcome_of_delayed(self) -> tuple[str, str, str]:
        until = f" until {_time(self._due_us)}" if self._due_us else ""
        if self._unpublished:
            return REFUSED, "banned", f"it was delayed{until}, and is not published: {self._unpublished}"
        if self.later:
            return DELAYED, "", f"it was delayed{until}, and is message {self.later} since then"
        return DELAYED, "", f"it is delayed{until}, and has another id then"

    def _of_receivers(self, states: Sequence[str], bad: Sequence[WayReceiver]) -> tuple[str, str, str]:
        has_it = sum(state in _HAS_IT for state in states)
        waits = sum(state in _WAITS for state in states)
        in_flight = [one for one in self.receivers if one.state == UNACKNOWLEDGED]
        if bad:
            first = bad[0]
            why = f"{first.clientid} does not get it: {first.why or first.reason}"
            return PARTLY if has_it or waits or in_flight else NOT_DELIVERED, first.reason, why
        if waits:
            first = next(one for one in self.receivers if one.state in _WAITS)
            return WAITING, "", f"{first.clientid}: {first.why or 'it waits in its queue'}"
        if in_flight:
            return UNACKNOWLEDGED, "", f"{in_flight[0].clientid}: {in_flight[0].why}"
        if not has_it:
            return NO_RECEIVER, "no_local", why_dropped("no_local")
        return DELIVERED, "", ""

    def _first_bad(self) -> str:
        bad = next((step for step in self.steps if step.is_bad), None)
        if bad is None:
            return ""
        return f"{bad.who}: {bad.text}" if bad.who else bad.text

    def _summary(self) -> str:
        count, row = len(self.receivers), self.row()
        heads = {
            DELIVERED: f"Delivered to {_receivers(count)}",
            UNACKNOWLEDGED: f"Sent, and acknowledged by {row.delivered} of {_receivers(count)}",
            PARTLY: f"Delivered to {row.delivered} of {_receivers(count)}",
            WAITING: f"Waits: {row.delivered} of {_receivers(count)} got it so far",
            NOT_DELIVERED: "Not delivered",
            NO_RECEIVER: "Delivered to nobody",
            STORED: "Stored, and delivered to nobody so far",
            REFUSED: "Not published",
            TAKEN: "Not routed so far",
            KEPT: "Cleared what was retained" if self._is_clearing else "Retained, and delivered to nobody",
            DELAYED: "Delayed",
        }
        return heads[self.outcome] + (f": {self.why}" if self.why else "") + "."


def _time(at_us: int) -> str:
    return f"{datetime.fromtimestamp(at_us // 1_000_000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _named(clientids: Sequence[str]) -> str:
    others = len(clientids) - _NAMED_MAX
    return ", ".join(clientids[:_NAMED_MAX]) + (f" and {others} more" if others > 0 else "")


def why_gone(reason: str) -> str:
    """Why a message went no further, in words."""
    if reason == "not_authorized":
        return "its publisher may not publish to this topic"
    return why_dropped(reason) or f"it was dropped: {reason}"


def _code(number: int) -> str:
    return rc.name_of(number).replace("_", " ") if number else "success"


def _receivers(count: int) -> str:
    return "1 receiver" if count == 1 else f"{count} receivers"
