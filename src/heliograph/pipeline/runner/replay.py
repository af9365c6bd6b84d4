"""Replays the dead letters of an action: their rows go to its target again, by its sink as it is now, without Spark.

How letters go to the sink once is `heliograph.pipeline.side_outputs.replayed_files`'s. The action may run meanwhile.
"""

import base64
import binascii
import json

from heliograph.actions.sinks import ROW
from heliograph.pipeline.files.definition import DeadLetterSettings
from heliograph.pipeline.runner.local_rows import MESSAGE_ID, LocalRows
from heliograph.pipeline.runner.settings import RunnerAction, RunnerSettings
from heliograph.pipeline.running.checkpoint_lock import checkpoint_lock
from heliograph.pipeline.running.identity import read_identity
from heliograph.pipeline.side_outputs.dead_letter_table import Replayed
from heliograph.pipeline.side_outputs.replayed_files import REPLAYS, ReplayedFile
from heliograph.pipeline.side_outputs.side_tables import files_in
from heliograph.pipeline.sinks.interface import MicroBatch

_NOTHING_KEPT = "neither its message nor its row is kept, so nothing can be made of it again"


def replay_letters(action: RunnerAction, settings: RunnerSettings) -> Replayed:
    """Bring the rows of an action's waiting letters to its target, whichever engine refused them.

    Raises:
        CheckpointInUseError: Another replay is under way.
        SinkError: The target did not take the rows; letters that are not marked wait on.
    """
    replayed = Replayed()
    identity = read_identity(settings.checkpoint / action.query)
    if identity is None:  # it has never run, and has no letters
        return replayed
    # Two replays at once would bring the same letters twice.
    with checkpoint_lock(settings.checkpoint / REPLAYS):
        for file in list(files_in(settings.output / DeadLetterSettings().path / action.query)):
            _replay(ReplayedFile(file), action, settings, identity.id, replayed)
    return replayed


def _replay(
    file: ReplayedFile, action: RunnerAction, settings: RunnerSettings, query_id: str, replayed: Replayed
) -> None:
    waiting = file.waiting
    if not waiting:
        return
    rows = _rows_of(file, action)
    whole = {number: row for number in waiting if (row := rows[number]) is not None}
    owner = file.owner(query_id, "replay")
    refused = file.refused_again(owner)
    batch = MicroBatch(action.query, owner, 0, settings.output, settings.mqtt, refused.refuse, query_id)
    if whole:
        ids = [_id_of(number) for number in whole]
        action.sink.write(LocalRows(list(whole.values()), action.sink, is_text=action.has_text_rows, ids=ids), batch)
    stay = dict.fromkeys(set(waiting) - whole.keys(), _NOTHING_KEPT)
    for number, row in whole.items():
        value = row.decode("utf-8", "replace") if action.has_text_rows else row
        reason = refused.reason_of({ROW: value, MESSAGE_ID: _id_of(number)})
        if reason is not None:
            stay[number] = reason
    reasons = [stay.get(number, reason) for number, reason in enumerate(file.column("reason"))]
    file.mark([number for number in waiting if number not in stay], {"reason": reasons})
    replayed.letters += len(waiting) - len(stay)
    replayed.rows += len(whole) - refused.count
    replayed.kept += len(stay)


def _id_of(number: int) -> bytes:
    """What a row is known by among equal ones; letters of one message may have its id."""
    return str(number).encode()


def _rows_of(file: ReplayedFile, action: RunnerAction) -> list[bytes | None]:
    """The row of each letter: the payload of its message; where Spark found none, what Spark kept of the row."""
    topics, payloads, kept = (file.column(name) for name in ("topic", "payload", "row"))
    return [
        payload if topic is not None else _kept_row(text, is_text=action.has_text_rows)
        for topic, payload, text in zip(topics, payloads, kept, strict=True)
    ]


def _kept_row(text: str | None, *, is_text: bool) -> bytes | None:
    try:
        value = json.loads(text or "")[ROW]
        return str(value).encode() if is_text else base64.b64decode(value, validate=True)
    except (ValueError, KeyError, TypeError, binascii.Error):
        return None
