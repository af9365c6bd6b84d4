"""What Spark's plan of a query says: which view each of its inputs belongs to, and where late rows are dropped.

Spark drops late rows at stateful operators, by the event time that the operator groups, joins or deduplicates by, and
only counts them. To tell which rows these are, the same query is planned over the same rows as a table
(`heliograph.pipeline.side_outputs.late_rows`); the place in the plan is found here, in both.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from heliograph.pipeline.running.views import DELAY_KEY

_STATEFUL: Final = {
    "Aggregate": "Aggregate",
    "Distinct": "Distinct",
    "Deduplicate": "Deduplicate",
    "DeduplicateWithinWatermark": "Deduplicate",
    "Join": "Join",
}


@dataclass(frozen=True)
class PlanNode:
    """An input of a stateful operator: the how-manieth operator of its kind in the plan, and which of its children."""

    kind: str
    number: int
    child: int


@dataclass(frozen=True)
class Input:
    """One streaming input of a query, and where Spark drops its late rows, if it does."""

    view: str
    late_at: PlanNode | None


def analyzed(rows: DataFrame) -> Any:
    """Spark's analyzed plan, a Java object."""
    return rows._jdf.queryExecution().analyzed()


def streaming_inputs(rows: DataFrame, views: Collection[str], drops_late: bool) -> list[Input]:
    """The streaming inputs of a query as Spark numbers them; a query with one view need not name it."""
    only = next(iter(views)) if len(views) == 1 else ""
    walk = _Walk({view.casefold(): view for view in views}, drops_late)
    walk.visit(analyzed(rows), only, None)
    return walk.inputs


def is_stateful(rows: DataFrame) -> bool:
    """Whether Spark keeps state between the micro-batches of a query."""
    return any(_is_stateful(node) for node in _nodes(analyzed(rows)))


def rows_at(session: SparkSession, rows: DataFrame, place: PlanNode) -> tuple[DataFrame, int] | None:
    """What arrives at an input of an operator in the plan of a table, and the number of its column of event time."""
    number = -1
    for node in _nodes(analyzed(rows)):
        if _STATEFUL.get(node.nodeName()) != place.kind:
            continue
        number += 1
        if number == place.number:
            column = _event_column(node, place.child)
            if column is None:
                return None
            child = node.children().apply(place.child)
            jvm: Any = session._jvm
            java = jvm.org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, child)
            return DataFrame(java, session), column
    return None


class _Walk:
    def __init__(self, views: dict[str, str], drops_late: bool) -> None:
        self.inputs: list[Input] = []
        self._views = views
        self._drops_late = drops_late
        self._counts: dict[str, int] = {}

    def visit(self, node: Any, view: str, late_at: PlanNode | None) -> None:
        name = node.nodeName()
        kind = _STATEFUL.get(name)
        number = self._counts.get(kind, 0) if kind else 0
        if kind:
            self._counts[kind] = number + 1
        if name == "SubqueryAlias":
            view = self._views.get(str(node.identifier().name()).casefold(), view)
        children = node.children()
        if children.isEmpty():
            if node.isStreaming():
                self.inputs.append(Input(view, late_at))
            return
        for child in range(children.size()):
            below = late_at
            if kind and _is_stateful(node):
                drops = self._drops_late and _event_column(node, child) is not None
                below = PlanNode(kind, number, child) if drops else None
            self.visit(children.apply(child), view, below)


def _nodes(node: Any) -> Iterator[Any]:
    yield node
    children = node.children()
    for child in range(children.size()):
        yield from _nodes(children.apply(child))


def _is_stateful(node: Any) -> bool:
    name = node.nodeName()
    if name not in _STATEFUL or not node.isStreaming():
        return False
    children = node.children()
    return name != "Join" or all(children.apply(child).isStreaming() for child in range(children.size()))


def _event_column(node: Any, child: int) -> int | None:
    """Number of the column, among those that arrive at an operator, by which it tells late rows."""
    output = node.children().apply(child).output()
    columns = [output.apply(number) for number in range(output.size())]
    if node.nodeName() == "Aggregate":
        grouping = node.groupingExpressions()
        keys = {_expr_id(grouping.apply(number)) for number in range(grouping.size())}
    else:
        keys = {_expr_id(column) for column in columns}
    for number, column in enumerate(columns):
        if _expr_id(column) in keys and column.metadata().contains(DELAY_KEY):
            return number
    return None


def _expr_id(expression: Any) -> str:
    """The identity of a column; other expressions have none, since Spark gives them no event time."""
    is_column = expression.getClass().getSimpleName() == "AttributeReference"
    return str(expression.exprId().toString()) if is_column else ""
