"""The broker's own databases keep their names, and so do its metrics."""

from config.writing import Write, mistakes_in
from heliograph.config.storage import METRIC_NAMES
from heliograph.node.metrics.storage import COMMITS, MESSAGES
from support.cases import cases


@cases("name", ["bans", "built_in_rules", "delayed", "messages", "retained", "sessions", "shared_groups"])
def test_a_further_database_has_no_name_of_the_brokers_own(write: Write, name: str) -> None:
    (mistake,) = mistakes_in(write(f'durable_storage.databases.{name}.topics = ["a/#"]'))
    assert (
        f"durable_storage.databases.{name}: the broker has databases of its own: bans, built_in_rules, delayed"
        in mistake
    )


@cases("name", ["commit_time", "compaction", "offload", "topics"])
def test_a_further_database_has_no_name_that_metrics_of_messages_begin_with(write: Write, name: str) -> None:
    (mistake,) = mistakes_in(write(f'durable_storage.databases.{name}.topics = ["a/#"]'))
    assert f"durable_storage.databases.{name}: metrics of the database messages begin with commit_time, comp" in mistake


def test_all_that_metrics_of_databases_begin_with_is_known() -> None:
    flat = [metric.flat_name(("messages", "1")[: len(metric.labels)]) for metric in (*COMMITS, *MESSAGES)]
    of_messages = {name.removeprefix("storage.") for name in flat}
    assert sorted({name.split(".")[0] for name in of_messages if "." in name}) == list(METRIC_NAMES)
