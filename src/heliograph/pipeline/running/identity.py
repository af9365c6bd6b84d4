"""What a query's checkpoint remembers of the query: who it is, where it began, and what its state was made for.

The file ``heliograph.json`` lies in the checkpoint of each query, so it is gone when the checkpoint is. The checkpoint
of the whole pipeline remembers its output directory likewise, in ``output.json``. A changed definition may go on with a
checkpoint when Spark's offsets and state mean to it what they meant before;
`unsound_change` says whether they do.
"""

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from heliograph.pipeline.errors import OptionError
from heliograph.pipeline.files.definition import Job, Pipeline, RuleJob
from heliograph.storage.durable_files import write_durably

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from heliograph.pipeline.running.views import ViewBuilder

_FILE: Final = "heliograph.json"
_OUTPUT_FILE: Final = "output.json"


@dataclass(frozen=True)
class Identity:
    """What a checkpoint knows of its query.

    Attributes:
        id: Identity of the checkpoint; one that is made again gets another.
        definition: What `definition_of` said when the query began; None for one that has not begun.
    """

    id: str
    starts: Mapping[str, str]
    definition: Mapping[str, Any] | None = None


def query_directory(checkpoint: Path, job: Job) -> Path:
    return checkpoint / (job.name if job.version == 1 else f"{job.name}@{job.version}")


def read_identity(directory: Path) -> Identity | None:
    try:
        document = json.loads((directory / _FILE).read_bytes())
    except FileNotFoundError:
        return None
    return Identity(document["id"], document["starts"], document["definition"])


def new_identity(starts: Mapping[str, str]) -> Identity:
    return Identity(str(uuid.uuid4()), dict(starts))


def write_identity(directory: Path, identity: Identity) -> None:
    document = {"id": identity.id, "starts": dict(identity.starts), "definition": identity.definition}
    write_durably(directory / _FILE, json.dumps(document, indent=1).encode())


def claim_output(checkpoint: Path, output: Path) -> None:
    """Write the output directory of a pipeline into its checkpoint, and refuse another one.

    What is done already would be missing in another directory, and the bookkeeping of tables and dead letters too.
    """
    file = checkpoint / _OUTPUT_FILE
    wanted = str(output.resolve())
    try:
        belongs_to = json.loads(file.read_bytes())["output"]
    except FileNotFoundError:
        write_durably(file, json.dumps({"output": wanted}).encode())
        return
    if belongs_to != wanted:
        raise OptionError(
            "--output",
            wanted,
            f"{belongs_to}, to which the checkpoint {checkpoint} belongs: what it has done already is there. Give "
            f"that, or another --checkpoint; if the directory was moved, write its new place into {file}",
        )


def definition_of(pipeline: Pipeline, name: str, builder: "ViewBuilder", rows: "DataFrame") -> dict[str, Any]:
    """What of a query its offsets and its state depend on, as plain values."""
    from heliograph.pipeline.side_outputs.lineage import is_stateful

    job = pipeline.job(name)
    sources = {}
    for view in job.views:
        messages = builder.messages(view)
        sources[view] = {"topics": list(messages.topics), "database": messages.options.get("database", "messages")}
    return {"sources": sources, "state": _state_of(pipeline, job, rows) if is_stateful(rows) else None}


def _state_of(pipeline: Pipeline, job: Job, rows: "DataFrame") -> dict[str, Any]:
    views = {}
    for name in job.views:
        view = pipeline.view(name)
        watermark = (None if isinstance(job, RuleJob) else job.watermark) or view.watermark
        views[name] = [watermark.column if watermark else None, list(view.deduplicate)]
    columns = [[field.name, field.dataType.simpleString()] for field in rows.schema.fields]
    sql = None if isinstance(job, RuleJob) else " ".join(job.sql.split())
    return {"sql": sql, "mode": str(job.mode), "views": views, "columns": columns}


def unsound_change(before: Mapping[str, Any], after: Mapping[str, Any]) -> str | None:
    """Why a checkpoint of one definition cannot be gone on with by another; None where it can."""
    if before["sources"] != after["sources"]:
        return f"its sources changed from {_sources_text(before['sources'])} to {_sources_text(after['sources'])}"
    old, new = before["state"], after["state"]
    if old == new:
        return None
    if old is None or new is None:
        return f"it {'now keeps' if old is None else 'no longer keeps'} state between micro-batches"
    changed = [text for key, text in _STATE_TEXTS.items() if old[key] != new[key]]
    return f"{' and '.join(changed)} changed, on which its state depends"


_STATE_TEXTS: Final = {
    "sql": "its SQL",
    "mode": "its mode",
    "views": "the time column or the deduplication of its views",
    "columns": "its columns",
}


def _sources_text(sources: Mapping[str, Any]) -> str:
    return "; ".join(f"{view}: {', '.join(of['topics'])} of {of['database']}" for view, of in sources.items())
