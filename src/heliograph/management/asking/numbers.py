"""Single numbers of nodes."""

from collections.abc import Iterable

from heliograph.control.proto_v1.live import LIVE_NUMBERS, LiveNumbers, LiveWanted
from heliograph.control.proto_v1.metrics import METRICS_SAMPLES, MetricsWanted
from heliograph.management.asking.nodes import Node


async def numbers_of(node: Node, names: Iterable[str]) -> dict[str, float]:
    """The values of some metrics without labels."""
    rows = await node.rows(METRICS_SAMPLES(MetricsWanted(tuple(names))))
    return {row.name: row.value for row in rows if not row.labels}


async def numbers_now(node: Node, names: Iterable[str], turns_s: int) -> tuple[dict[str, float], LiveNumbers]:
    """The same with the figures of the node's process, the longest turn of so many seconds included."""
    numbers = await node.ask(LIVE_NUMBERS(LiveWanted(tuple(names), turns_s)))
    return {one.name: one.value for one in numbers.samples if not one.labels}, numbers
