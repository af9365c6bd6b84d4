"""The process beside a running node that finds what an erasure takes, checks what is left, and signs the record.

    python -m heliograph.node.erasure.worker

It reads lines of JSON: first the subject (`ErasureOptions`), then what to do (`ErasureStep`). Each answer is a
`StepAnswer` in MessagePack after its length in 4 bytes; the last answer of a step has `is_end` or an error. It opens
databases to read only: the node writes the changes. When its input ends, as it does when the node dies, it ends.
"""

import os
import pwd
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Final

import msgspec

from heliograph import __version__
from heliograph.node.erasure.erasing import STAYS, erase
from heliograph.node.erasure.files import files_naming
from heliograph.node.erasure.signed_record import FOLDER, write_record
from heliograph.node.erasure.steps import LENGTH_BYTES, ErasureOptions, ErasureStep, Left, StepAnswer
from heliograph.storage.erasure.changes import RecordChange
from heliograph.storage.erasure.errors import ErasureFailedError
from heliograph.storage.erasure.messages import erase_beside
from heliograph.storage.erasure.subject import ErasureSubject
from heliograph.storage.errors import StorageError

_NICENESS: Final = 10


def main() -> None:
    """Answer steps until standard input ends."""
    with suppress(OSError):
        os.nice(_NICENESS)
    os.umask(0o077)
    wanted = msgspec.json.decode(sys.stdin.buffer.readline(), type=ErasureOptions)
    for line in sys.stdin.buffer:
        step = msgspec.json.decode(line, type=ErasureStep)
        try:
            _say(_messages(wanted, step.database) if step.database else _finish(wanted, step))
        except StorageError as error:
            _say(StepAnswer(error=error.problem, code=error.code))
        except Exception as error:  # noqa: BLE001 - the node says it to people
            _say(StepAnswer(error=f"{type(error).__name__}: {error}", code=ErasureFailedError.code))


def _messages(wanted: ErasureOptions, database: str) -> StepAnswer:
    def hand_over(changes: Sequence[RecordChange]) -> None:
        _say(StepAnswer(changes=[(one.key, one.before, one.after) for one in changes]))

    found = erase_beside(Path(wanted.data_dir), database, wanted.subject(), hand_over)
    return StepAnswer(is_end=True, messages=found.messages)


def _finish(wanted: ErasureOptions, step: ErasureStep) -> StepAnswer:
    """Look at what is left, and sign what was erased."""
    data_dir, subject = Path(wanted.data_dir), wanted.subject()
    left = _left(data_dir, subject)
    named = _still_named(data_dir, subject)
    facts = {
        "version": __version__,
        "by": pwd.getpwuid(os.getuid()).pw_name,
        "messages": step.messages,
        "records": step.records,
        "left_for_a_stopped_node": msgspec.to_builtins(left),
        "stays": STAYS,
        "files_that_still_name_it": len(named),
    }
    record = write_record(data_dir, subject, facts)
    return StepAnswer(is_end=True, left=left, stays=list(STAYS), still_named=named, record=str(record))


def _left(data_dir: Path, subject: ErasureSubject) -> Left:
    plan = asdict(erase(data_dir, subject, [], is_tried=True))
    return msgspec.convert({name: plan[name] for name in Left.__struct_fields__}, Left)


def _still_named(data_dir: Path, subject: ErasureSubject) -> list[str]:
    if not subject.name:
        return []
    found = files_naming(data_dir, subject.name, lambda file: file.parent.name == FOLDER)
    return [str(path.relative_to(data_dir)) for path in found]


def _say(answer: StepAnswer) -> None:
    content = msgspec.msgpack.encode(answer)
    sys.stdout.buffer.write(len(content).to_bytes(LENGTH_BYTES, "big") + content)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="heliograph-erase-") as scratch:
        tempfile.tempdir = scratch
        main()
