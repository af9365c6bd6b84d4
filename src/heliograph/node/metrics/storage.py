"""The metrics of databases: commits, what lies on the disk, compaction, retention, offload."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from heliograph.observe.histogram import Histogram
from heliograph.observe.metric import HISTOGRAM, Metric, Sample, counter, gauge, histogram, labelled

_MAIN: Final = "messages"  # the database whose flat names have no label
_BUCKET: Final = ".le.{le}"
_Declare = Callable[..., Metric]


def _of_databases(declare: _Declare, name: str, meaning: str, unit: str = "") -> Metric:
    metric = declare(f"storage.{name}", meaning, unit, ("database",))
    return replace(
        metric, flat=f"storage.{{database}}.{name}{_BUCKET if metric.kind == HISTOGRAM else ''}", unnamed=_MAIN
    )


def samples_of(database: str, numbers: Mapping[str, float], commit_times: Histogram | None) -> list[Sample]:
    times = [] if commit_times is None else commit_times.samples("storage.commit_time", database)
    return [*labelled("storage", numbers, database), *times]


#: What every database counts that has a commit queue.
COMMITS: Final[tuple[Metric, ...]] = tuple(
    _of_databases(*one)
    for one in (
        (counter, "commits", "Commits to the disk."),
        (counter, "batches", "Batches that were gathered for them."),
        (
            counter,
            "messages",
            "Messages or changes that were committed; of retained messages, those that are there.",
        ),
        (counter, "refused_messages", "Messages or changes that the disk refused."),
        (counter, "stalls", "Times that so much waited for a commit that publishers had to wait."),
        (gauge, "buffered_bytes", "What waits for its commit.", "bytes"),
        (counter, "commit_s", "Time that commits took, all together.", "seconds"),
        (histogram, "commit_time", "Commits by the time that they took at most.", "seconds"),
        (gauge, "last_commit_s", "Time that the last commit took.", "seconds"),
        (gauge, "open", "1 while the database is open."),
        (gauge, "memory_bytes", "What RocksDB holds in memory for it.", "bytes"),
        (gauge, "pending_keys", "Keys of a state database that wait for their commit."),
        (gauge, "pending_changes", "Changes of retained messages that wait for their commit."),
        (gauge, "streams", "Streams that the learned topic structure has made."),
        (gauge, "learned_levels", "Topic levels that the learned topic structure remembers."),
        (gauge, "bytes", "Bytes of the records that lie in it.", "bytes"),
    )
)
_OFFLOADED: Final = (
    (counter, "offload.generations", "Generations that were offloaded."),
    (counter, "offload.messages", "Messages in them."),
    (counter, "offload.bytes", "Bytes of the files that were made of them.", "bytes"),
    (counter, "offload.removed", "Offloaded generations whose files were removed."),
    (counter, "offload.failures", "Steps of an offload that failed."),
    (gauge, "offload.refused_generations", "Generations that cannot be offloaded."),
    (gauge, "offload.process_running", "1 while the offload process runs."),
    (counter, "offload.process_starts", "Times that it was started."),
    (counter, "offload.fetches", "Blocks that were fetched from where they were offloaded to."),
    (counter, "offload.fetch_failures", "Fetches that failed."),
    (counter, "offload.cache_hits", "Blocks that were still there from an earlier fetch."),
    (gauge, "offload.cached_bytes", "What such blocks take.", "bytes"),
    (gauge, "offload.fetching", "Fetches that are under way."),
)
#: What databases of messages count besides.
MESSAGES: Final[tuple[Metric, ...]] = tuple(
    _of_databases(*one)
    for one in (
        (gauge, "topics.memory_bytes", "What the learned topic structure takes.", "bytes"),
        (gauge, "generations", "Generations."),
        (counter, "dropped_generations", "Generations that were dropped, by age or size."),
        (gauge, "last_commit_us", "The time of the newest commit, since the epoch.", "microseconds"),
        (counter, "retention_failures", "Times that old generations could not be closed or dropped."),
        (counter, "compaction.merges", "Merges of small blocks."),
        (counter, "compaction.merged_blocks", "Blocks that were merged."),
        (counter, "compaction.merged_messages", "Messages in them."),
        (counter, "compaction.failures", "Merges that failed."),
        (counter, "compaction.looks", "Times that a stream was looked at for small blocks."),
        (gauge, "compaction.longest_s", "The longest step of compaction.", "seconds"),
        *_OFFLOADED,
    )
)
READER: Final[tuple[Metric, ...]] = (
    gauge("reader.running", "1 while the storage reader runs."),
    counter("reader.restarts", "Times that it was started again after it had ended."),
    counter("reader.damaged_places", "Damaged places that it met."),
)
