"""The sink `sqs`: rows as messages in a queue of Amazon SQS.

In a queue that keeps an order (FIFO), a message has an id that is the same where its batch runs again: SQS leaves a
double out that comes within five minutes.
"""

import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.sinks.aws import AwsLink, AwsSink, is_of_row, is_passing, sentence_of_error
from heliograph.pipeline.sinks.messages import OnTheirWay, OutgoingMessage
from heliograph.pipeline.sinks.rows import Derived
from heliograph.settings.aws import FIFO, PROBED_NAME, QUEUE_URL, check_queue
from heliograph.settings.fields import optional, required
from heliograph.settings.kinds import Integer, Text

_BODY: Final = "message_body"
_GROUP: Final = "message_group_id"
_ID: Final = "message_deduplication_id"
_MESSAGES_MAX: Final = 10
# The limit of a request was this before it was 1 MiB, and is in servers that speak SQS.
_REQUEST_BYTES_MAX: Final = 256 * 1024
_NO_QUEUE: Final = ("AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist", "InvalidAddress")
_NOT_SENT: Final = re.compile(r"[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_VALID_ID: Final = re.compile(r"[!-~]{1,128}")


@dataclass(frozen=True, kw_only=True)
class SqsSink(AwsSink):
    service: ClassVar[str] = "sqs"

    queue_url: str = required(
        QUEUE_URL,
        "The queue; one that keeps an order ends with `.fifo`.",
    )
    message_body: str | None = optional(Text("a template"), "Template of the body; without, the row as JSON.")
    message_group_id: str | None = optional(
        Text("a template of a group"),
        "Template of the group, within which a `.fifo` queue keeps the order, and which it needs.",
    )
    message_deduplication_id: str | None = optional(
        Text("a template of an id"),
        "Of a `.fifo` queue: template of the id by which it leaves doubles of five minutes out; without, an id of the "
        "row, the same whenever its batch runs again.",
    )
    delay_seconds: int | None = optional(Integer(0, 900), "How many seconds a message is hidden at first.")

    def __post_init__(self) -> None:
        check_queue(self.queue_url, self.message_group_id, self.message_deduplication_id, self.delay_seconds)

    @property
    def is_fifo(self) -> bool:
        return self.queue_url.endswith(FIFO)

    @property
    def target(self) -> str:
        return f"SQS queue {self.queue_url} at {self.endpoint}"

    @property
    def derived(self) -> Sequence[Derived]:
        ids = ((_GROUP, self.message_group_id), (_ID, self.message_deduplication_id))
        return (
            Derived(_BODY, self.message_body, _BODY),
            *(Derived(name, text, name, is_text=True) for name, text in ids if text is not None),
        )

    def message_of(self, chunk: dict[str, list[Any]], index: int) -> tuple[str, bytes, dict[str, str]]:
        body = chunk[_BODY][index]
        try:
            text = body.decode()
        except UnicodeDecodeError:
            raise ValueError("the body is not UTF-8") from None
        if not text:
            raise ValueError("the body is empty")
        if found := _NOT_SENT.search(text):
            raise ValueError(f"the body has the character U+{ord(found[0]):04X}, which no message has")
        headers: dict[str, str] = {name: chunk[name][index] for name in (_GROUP, _ID) if name in chunk}
        for name, value in headers.items():
            if _VALID_ID.fullmatch(value) is None:
                raise ValueError(f"{name} is {value[:100]!r}: 1 to 128 letters, digits and punctuation of ASCII may be")
        return self.queue_url, body, headers

    def connected(self) -> AbstractContextManager[AwsLink]:
        return SqsLink(self)


class SqsLink(AwsLink):
    entries_max = _MESSAGES_MAX
    bytes_max = _REQUEST_BYTES_MAX

    def __init__(self, sink: SqsSink) -> None:
        super().__init__(sink)
        self._queue = sink.queue_url
        self._is_fifo = sink.is_fifo
        self._delay = {} if sink.delay_seconds is None else {"DelaySeconds": sink.delay_seconds}

    def size_of(self, message: OutgoingMessage) -> int:
        return len(message.body)

    def check(self) -> None:
        is_sample = self._queue.endswith(f"/{PROBED_NAME}")
        missing = _NO_QUEUE if is_sample else ()
        self.look("get_queue_attributes", missing, QueueUrl=self._queue, AttributeNames=["QueueArn"])

    def put(self, numbers: Sequence[int], outgoing: OnTheirWay) -> None:
        entries = [self._entry(number, outgoing.waiting[number]) for number in numbers]
        answer = self.call("send_message_batch", QueueUrl=self._queue, Entries=entries)
        sent = {str(number): number for number in numbers}
        for found in answer.get("Successful", ()):
            if found.get("Id") in sent:
                outgoing.take(sent[found["Id"]])
        for found in answer.get("Failed", ()):
            number, code = sent.get(found.get("Id")), str(found.get("Code"))
            text = sentence_of_error(code, found.get("Message"))
            if number is None:
                continue
            if is_of_row(code):
                outgoing.refuse(number, text)
            elif found.get("SenderFault") and not is_passing(code):  # such as a key that encrypts and is not ours
                raise SinkError(f"SQS queue {self._queue}: {text}")
            else:
                outgoing.problem = text

    def _entry(self, number: int, message: OutgoingMessage) -> dict[str, Any]:
        entry: dict[str, Any] = {"Id": str(number), "MessageBody": message.body.decode(), **self._delay}
        if _GROUP in message.headers:
            entry["MessageGroupId"] = message.headers[_GROUP]
        if self._is_fifo:
            entry["MessageDeduplicationId"] = message.headers.get(_ID, message.identity)
        return entry
