"""The way of one message through the broker, while it is recorded: who sent it, and step by step what became of it.

A step costs the message what is done here: a tuple. What it means for people is made of it for an answer.
"""

from typing import Final

from mypy_extensions import i64

# What a step tells; `who` is a client in those of receivers, `SENT` to `ACKNOWLEDGED`.
VERDICT: Final = 1  # a callback (`who`) said `text`
RULE: Final = 2  # a rule (`who`) was evaluated: `text`
ACTION: Final = 3  # an action of a rule (`who`) was carried out: `text`
CHANGED: Final = 4  # callbacks gave it another content, and the topic `text` where that is not empty
RETAINED: Final = 5  # the retainer has it, or does not take it for the reason `text`
STORED: Final = 6  # it was given to storage
COMMITTED: Final = 7  # what keeps it is durable, or refused it: reason code `number`
ROUTED: Final = 8  # `number` filters match; -1: more than are known at once
GONE: Final = 9  # it goes no further, for the reason `text`
REFUSED: Final = 10  # its PUBLISH broke a rule of the protocol or a limit: `text`
ANSWERED: Final = 11  # its publisher was answered with the reason code `number`
WILL: Final = 12  # it is a will, of which this became: `text`
CAME_AGAIN: Final = 13  # it comes from the retained store or from storage: `text`
SENT: Final = 14  # to `who`, for the filter `text`, at QoS `number`
SENT_AGAIN: Final = 15
WAITS: Final = 16  # in the queue of `who`, for the filter `text`
LEFT: Final = 17  # to the replay of the durable session of `who`
DROPPED: Final = 18  # `who` does not get it, for the reason `text`
WHY: Final = 19  # why it waits at `who`, or was dropped: `text`
RECEIVED: Final = 20  # `who` has sent PUBREC
ACKNOWLEDGED: Final = 21  # `who` has it
AUTHORIZED: Final = 22  # its publisher may publish it; `number` 0: nothing restricts that
DELAYED: Final = 23  # it is held until `number`, in microseconds since the epoch
LATER: Final = 24  # what was held is published now as the message with the id `text`, or is not for the reason `text`

Step = tuple[int, int, str, str, int]  # microseconds since it began, what, who, text, number

STEPS_MAX: Final = 2_000  # of one message
TEXT_MAX: Final = 1_000  # characters of what one of them says
_WAY_BYTES: Final = 700
_STEP_BYTES: Final = 160


def is_of_receiver(what: int) -> bool:
    return SENT <= what <= ACKNOWLEDGED


class Way:
    """What is known of a message; owned by `WaysUnderWay` until it is finished, and by what writes it then.

    Args:
        at_us: When it began, in microseconds since the epoch.
        is_begun: Whether it begins with its PUBLISH; otherwise it goes on with what was recorded before.

    Attributes:
        has_id: Whether its id is that of a message; one that was refused before it was one has an id of its own.
        is_ended: Whether its publisher's part is over.
        answer: The reason code that its publisher gets after the commit; -1 for none.
        waits: What receivers have yet to do: those that have to get it (0), or to acknowledge it (1); None for none.
        left_out_count: Steps beyond those that are kept.
        held_bytes: What it counts for in memory.
        grown_bytes: What its newest steps hold, which is not counted yet.
    """

    def __init__(
        self,
        id_high: i64,
        id_low: i64,
        at_us: i64,
        topic: str,
        clientid: str,
        username: str | None,
        qos: i64,
        retain: bool,
        payload_bytes: i64,
        expiry_s: i64,
        is_begun: bool,
    ) -> None:
        self.id_high: i64 = id_high
        self.id_low: i64 = id_low
        self.at_us: i64 = at_us
        self.topic = topic
        self.clientid = clientid
        self.username = username
        self.qos: i64 = qos
        self.retain = retain
        self.payload_bytes: i64 = payload_bytes
        self.expiry_s: i64 = expiry_s
        self.is_begun = is_begun
        self.made_by: tuple[str, ...] = ()
        self.key: tuple[int, int] = (0, 0)
        self.has_id = False
        self.is_ended = False
        self.commits_count: i64 = 0
        self.answer: i64 = -1
        self.waits: dict[str, int] | None = None
        self.steps: list[Step] = []
        self.left_out_count: i64 = 0
        self.held_bytes: i64 = _WAY_BYTES + len(topic) + len(clientid)
        self.grown_bytes: i64 = 0

    def add(self, now_us: i64, what: int, who: str = "", text: str = "", number: i64 = 0) -> None:
        if len(self.steps) < STEPS_MAX:
            if what != CHANGED:  # by which it is found
                text = text[:TEXT_MAX]
            self.steps.append((int(now_us - self.at_us), what, who, text, int(number)))
            self.grown_bytes += _STEP_BYTES + len(text)
        else:
            self.left_out_count += 1

    def row(self) -> tuple[object, ...]:
        """What is kept of it, in the order of `WayRecord`."""
        return (
            int(self.id_high),
            int(self.id_low),
            int(self.at_us),
            self.topic,
            self.clientid,
            self.username,
            int(self.qos),
            self.retain,
            int(self.payload_bytes),
            int(self.expiry_s),
            self.is_begun,
            self.has_id,
            self.made_by,
            self.steps,
            int(self.left_out_count),
        )
