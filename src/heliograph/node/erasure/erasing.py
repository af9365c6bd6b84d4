"""Erases a subject from everything that a stopped node keeps; after a crash it is done again.

Messages come first: which of those in flight are erased is known then. The record comes last, so a record means that
all is done.
"""

import os
import pwd
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final

from heliograph import __version__
from heliograph.node.config_changes import AUDIT_FILE
from heliograph.node.erasure.files import erase_audit, erase_letters, files_naming
from heliograph.node.erasure.signed_record import FOLDER, write_record
from heliograph.node.erasure.state import StateEraser, ids_in_flight, records_naming
from heliograph.storage.columnar.node_databases import databases_path
from heliograph.storage.columnar.secondary import database_directories
from heliograph.storage.erasure.keyed_records import rewrite_state, state_records
from heliograph.storage.erasure.messages import MessageIds, erase_messages
from heliograph.storage.erasure.subject import ErasureSubject
from heliograph.storage.repair.message_database import node_is_stopped
from heliograph.storage.repair.record_database import state_directories

_PIPELINE_OUTPUT: Final = Path("pipeline", "output")
_NAMING: Final = {
    "bans": "its bans, which `heliograph ctl banned delete` ends",
    "built_in_rules": "its built-in rules, which `heliograph ctl acl delete` deletes",
    "users": "the users of the built-in database, which `heliograph ctl users delete` deletes",
    "shared_groups": "shared groups whose name or filter has it",
}
#: What no erasure reaches, and why; each is named in every plan and record.
STAYS: Final = (
    "lines of the audit log, without their arguments: who did what, and when",
    "tables that sinks wrote, and what pipelines keep in their checkpoints: delete it there",
    "files of `storage export`, backups and archives, and copies of the data directory",
    "log and trace files, which end with their rotation and deletion",
    "earlier versions of objects where a bucket keeps versions",
    "files of offloaded generations that `offload.keep_files` keeps after their retention",
    "the configuration, its revisions, users and bans that name it",
)


@dataclass
class Erasure:
    """What was erased, or would be: how much in each place.

    Attributes:
        still_named: Files of the data directory whose bytes have the client id or topic.
        naming_records: Records that stay and have it in them, by database.
        record: The signed record; None of a trial.
    """

    messages: dict[str, int] = field(default_factory=dict)
    offloaded_messages: int = 0
    offloaded_files: int = 0
    records: dict[str, int] = field(default_factory=dict)
    audit_lines: int = 0
    dead_letters: int = 0
    naming_records: dict[str, int] = field(default_factory=dict)
    still_named: list[str] = field(default_factory=list)
    stays: Sequence[str] = STAYS
    record: str | None = None

    @property
    def amount(self) -> int:
        kinds = (*self.messages.values(), *self.records.values())
        return sum(kinds) + self.audit_lines + self.dead_letters


def erase(
    data_dir: Path,
    subject: ErasureSubject,
    outputs: Sequence[Path],
    targets: Mapping[str, str] = MappingProxyType({}),
    *,
    is_tried: bool,
) -> Erasure:
    """Erase a subject from a data directory.

    Args:
        outputs: Further directories that pipelines write dead letters to.
        targets: Where each database offloads to by the settings.
        is_tried: Only count; the node may be running.

    Raises:
        StorageInUseError: The node runs.
    """
    found = Erasure()
    with ExitStack() as stack:
        if not is_tried:
            stack.enter_context(node_is_stopped(data_dir, ""))
        state = {name: path for name, path in state_directories(data_dir).items() if path.is_dir()}
        ids = ids_in_flight(state["sessions"]) if "sessions" in state else set()
        erased_ids = _erase_messages(data_dir, subject, ids, targets, found, is_tried=is_tried)
        for name, path in state.items():
            _erase_state(path, subject, erased_ids, found, is_tried=is_tried)
            if (
                subject.clientid
                and name in _NAMING
                and (count := records_naming(state_records(path), subject.clientid))
            ):
                found.naming_records[_NAMING[name]] = count
        found.audit_lines = erase_audit(data_dir / AUDIT_FILE, subject, is_tried=is_tried)
        for directory in (data_dir / _PIPELINE_OUTPUT, *outputs):
            found.dead_letters += erase_letters(directory, subject, is_tried=is_tried)
        if not is_tried:
            if subject.name:
                found.still_named = [
                    str(path.relative_to(data_dir)) for path in files_naming(data_dir, subject.name, _is_record)
                ]
            facts = {name: value for name, value in asdict(found).items() if name not in ("record", "still_named")}
            by = {"version": __version__, "by": pwd.getpwuid(os.getuid()).pw_name}
            still_named = {"files_that_still_name_it": len(found.still_named)}
            found.record = str(write_record(data_dir, subject, {**by, **facts, **still_named}))
    return found


def _erase_messages(
    data_dir: Path,
    subject: ErasureSubject,
    ids: MessageIds,
    targets: Mapping[str, str],
    found: Erasure,
    *,
    is_tried: bool,
) -> MessageIds:
    path, erased = databases_path(data_dir), MessageIds()
    for name in database_directories(path) if path.is_dir() else ():
        report = erase_messages(data_dir, name, subject, ids, filter(None, [targets.get(name)]), is_tried=is_tried)
        found.messages[name] = report.messages
        found.offloaded_messages += report.offloaded
        found.offloaded_files += report.files
        erased |= report.ids
    return erased


def _erase_state(path: Path, subject: ErasureSubject, ids: MessageIds, found: Erasure, *, is_tried: bool) -> None:
    eraser = StateEraser(subject, ids)
    walk = eraser.of(path)
    if walk is None:
        return
    for _ in walk(state_records(path)):
        pass
    found.records[path.name] = eraser.count
    if not is_tried:
        rewrite_state(path, walk)


def _is_record(file: Path) -> bool:
    return file.parent.name == FOLDER
