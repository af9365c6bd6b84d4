"""The sink `kinesis`: rows as records of a stream of Amazon Kinesis."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from heliograph.pipeline.sinks.aws import AwsLink, AwsSink, is_of_row, sentence_of_error
from heliograph.pipeline.sinks.messages import OnTheirWay, OutgoingMessage
from heliograph.pipeline.sinks.rows import Derived
from heliograph.settings.aws import PROBED_NAME
from heliograph.settings.fields import optional, required
from heliograph.settings.kinds import Text

_KEY: Final = "partition_key"
_PAYLOAD: Final = "payload"
_KEY_CHARACTERS_MAX: Final = 256
_RECORDS_MAX: Final = 500


@dataclass(frozen=True, kw_only=True)
class KinesisSink(AwsSink):
    service: ClassVar[str] = "kinesis"

    stream_name: str = required(Text("the name of a stream", r"[a-zA-Z0-9_.-]{1,128}"), "The stream.")
    partition_key: str = required(
        Text("a template of a partition key"),
        "Template of the partition key, which says which shard a record goes to.",
    )
    payload: str | None = optional(Text("a template"), "Template of the record; without, the row as JSON.")

    @property
    def target(self) -> str:
        return f"Kinesis stream {self.stream_name} at {self.endpoint}"

    @property
    def derived(self) -> Sequence[Derived]:
        return Derived(_KEY, self.partition_key, _KEY, is_text=True), Derived(_PAYLOAD, self.payload, _PAYLOAD)

    def message_of(self, chunk: dict[str, list[Any]], index: int) -> tuple[str, bytes, dict[str, str]]:
        key = chunk[_KEY][index]
        if not 1 <= len(key) <= _KEY_CHARACTERS_MAX:
            raise ValueError(f"the partition key has {len(key)} characters: 1 to {_KEY_CHARACTERS_MAX} may be")
        return key, chunk[_PAYLOAD][index], {}

    def connected(self) -> AbstractContextManager[AwsLink]:
        return KinesisLink(self)


class KinesisLink(AwsLink):
    entries_max = _RECORDS_MAX
    bytes_max = 5_000_000  # of 5 MiB

    def __init__(self, sink: KinesisSink) -> None:
        super().__init__(sink)
        self._stream = sink.stream_name

    def size_of(self, message: OutgoingMessage) -> int:
        return len(message.body) + len(message.place.encode())

    def check(self) -> None:
        missing = ("ResourceNotFoundException",) if self._stream == PROBED_NAME else ()
        self.look("describe_stream_summary", missing, StreamName=self._stream)

    def put(self, numbers: Sequence[int], outgoing: OnTheirWay) -> None:
        messages = [outgoing.waiting[number] for number in numbers]
        records = [{"Data": message.body, "PartitionKey": message.place} for message in messages]
        answer = self.call("put_records", StreamName=self._stream, Records=records)
        for number, found in zip(numbers, answer.get("Records", ()), strict=False):
            code = found.get("ErrorCode")
            if code is None and found.get("SequenceNumber"):
                outgoing.take(number)
            elif code is not None and is_of_row(code):
                outgoing.refuse(number, sentence_of_error(code, found.get("ErrorMessage")))
            elif code is not None:
                outgoing.problem = sentence_of_error(code, found.get("ErrorMessage"))
