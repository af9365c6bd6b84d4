"""The in-broker engine: a rule compiled once into Python closures, applied to one message after another.

Closures, because they are the fastest thing that plain Python offers short of generated source: what is known when the
rule is compiled (operators, names, which variables an alias may shadow) is decided then and costs an evaluation
nothing. `heliograph.rules.expressions` compiles the expressions; this module knows statements:
fields, aliases, the elements of FOREACH, WHERE.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from heliograph.mqtt.topic import topic_matches
from heliograph.rules.columns import Columns, OverlaidColumns
from heliograph.rules.environment import Environment
from heliograph.rules.errors import EvaluationFault, RuleEvaluationError, RuleSyntaxError
from heliograph.rules.expressions import Evaluate, ExpressionCompiler, Output
from heliograph.rules.json_text import decode_json
from heliograph.rules.parser import parse_rule
from heliograph.rules.paths import put
from heliograph.rules.tree import Expression, Field, Foreach, Literal, Path, Place, Select, Slice, Star, Statement
from heliograph.rules.values import UNDEFINED, Value

StoreField: TypeAlias = Callable[[Columns, Output], None]
Rows: TypeAlias = Callable[[Columns], list[Output]]


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much one evaluation may do where others wait for it."""

    elements_max: int
    cpu_s_max: float


# One message of a megabyte can hold half a million elements.
LIVE: Final = Bounds(10_000, 0.1)
"""The bounds of rules that run in a broker."""

_ELEMENTS_BETWEEN_LOOKS: Final = 64


class CompiledRule:
    """A rule ready to be applied. It holds no state of any evaluation, so every thread may use it.

    Args:
        metadata: What the rule sees as the column `metadata`, such as `{"rule_id": "r1"}`. It is the rule's own, while
            other columns are shared by all rules that look at a message. None leaves it to the columns.
        environment: What its functions may ask besides the message; None for one of its own.

    Attributes:
        may_block: Whether an evaluation may wait for another process or machine (jq, external schemas), so that no
            event loop should wait for it.
        bounds: How much one evaluation may do; None for any amount.
    """

    def __init__(
        self,
        rule: str | Statement,
        metadata: Mapping[str, Value] | None = None,
        environment: Environment | None = None,
    ) -> None:
        self.tree = parse_rule(rule) if isinstance(rule, str) else rule
        self.may_block = False
        self.bounds: Bounds | None = None
        self._text = self.tree.text
        self._metadata = None if metadata is None else dict(metadata)
        self._environment = Environment() if environment is None else environment
        try:
            self._rows = self._foreach(self.tree) if isinstance(self.tree, Foreach) else self._select(self.tree)
        except RecursionError:
            whole = Place(0, len(self._text), 1, 1)
            raise RuleSyntaxError("the rule is nested too deeply", self._text, whole) from None

    @property
    def topics(self) -> tuple[str, ...]:
        return self.tree.topics

    def matches(self, topic: str) -> bool:
        return any(topic_matches(topic, topic_filter) for topic_filter in self.tree.topics)

    def apply(self, columns: Columns | Mapping[str, Value]) -> list[dict[str, Value]]:
        """Evaluate the rule for one message whose topic it wants.

        Returns:
            The output rows: of SELECT one, or none where WHERE is not true; of FOREACH one for each element that is
            wanted. They share values with the columns, so neither may be changed in place.
        """
        if not isinstance(columns, Columns):
            columns = Columns(columns)
        try:
            return self._rows(columns)
        except RecursionError:
            whole = Place(0, len(self._text), 1, 1)
            raise RuleEvaluationError("a value is nested too deeply", self._text, whole) from None

    def __repr__(self) -> str:
        return f"CompiledRule({' '.join(self._text.split())!r})"

    def _select(self, tree: Select) -> Rows:
        compiler = ExpressionCompiler(self._text, self._environment, self._metadata)
        fields = [self._field(field, position, compiler) for position, field in enumerate(tree.fields)]
        where = None if tree.where is None else compiler.condition(tree.where)
        self.may_block = compiler.may_block

        def rows(columns: Columns) -> list[Output]:
            output: Output = {}
            for store in fields:
                store(columns, output)
            return [] if where is not None and not where(columns, output) else [output]

        return rows

    def _foreach(self, tree: Foreach) -> Rows:
        compiler = ExpressionCompiler(self._text, self._environment, self._metadata)
        *before, last = tree.fields
        fields = [self._field(field, position, compiler) for position, field in enumerate(before)]
        assert isinstance(last, Field)  # the parser refuses `*` there
        array, store_element = compiler.value(last.expression), _store_element(tree.element)
        compiler.stored(tree.element, unchanged=False)
        where = None if tree.where is None else compiler.condition(tree.where)
        # They see results and elements as columns.
        given = {target.root for target in (*self._targets(before), tree.element)}
        inner_metadata = None if "metadata" in given else self._metadata
        inner = ExpressionCompiler(self._text, self._environment, inner_metadata)
        incase = None if tree.incase is None else inner.condition(tree.incase)
        do = tree.do or (Star(last.place),)
        output_fields = [self._field(field, position, inner) for position, field in enumerate(do)]
        self.may_block = compiler.may_block or inner.may_block

        def rows(columns: Columns) -> list[Output]:
            results: Output = {}
            for store in fields:
                store(columns, results)
            elements = array(columns, results)
            if where is not None and not where(columns, store_element(results, elements)):
                return []
            found: list[Output] = []
            for element in self._bounded(elements, last.place) if isinstance(elements, list) else ():
                overlaid = OverlaidColumns(columns, store_element(results, element))
                if incase is None or incase(overlaid, {}):
                    output: Output = {}
                    for store in output_fields:
                        store(overlaid, output)
                    found.append(output)
            return found

        return rows

    def _bounded(self, elements: list[Value], place: Place) -> Iterable[Value]:
        bounds = self.bounds
        if bounds is None or len(elements) <= _ELEMENTS_BETWEEN_LOOKS:
            return elements
        if len(elements) > bounds.elements_max:
            text = f"FOREACH over {len(elements):,} elements; at most {bounds.elements_max:,} are allowed here"
            raise RuleEvaluationError(text, self._text, place)
        return self._in_time(elements, place, time.thread_time() + bounds.cpu_s_max)

    def _in_time(self, elements: list[Value], place: Place, end_s: float) -> Iterator[Value]:
        for position, element in enumerate(elements):
            if position % _ELEMENTS_BETWEEN_LOOKS == 0 and time.thread_time() > end_s:
                text = f"FOREACH took too long: it was stopped behind {position:,} of {len(elements):,} elements"
                raise RuleEvaluationError(text, self._text, place)
            yield element

    def _targets(self, fields: Sequence[Field | Star]) -> Iterator[Path]:
        for position, field in enumerate(fields):
            if isinstance(field, Field):
                yield field.alias or implied_target(field.expression, position)

    def _field(self, field: Field | Star, position: int, compiler: ExpressionCompiler) -> StoreField:
        if isinstance(field, Star):
            # There is nothing to note for the compiler: what `*` stores reads the same from the columns.
            if compiler.metadata is None:
                return lambda columns, output: output.update(columns.all())
            own: Output = {"metadata": compiler.metadata}
            return lambda columns, output: output.update(columns.all() | own)
        evaluate = compiler.value(field.expression)
        target = field.alias or implied_target(field.expression, position)
        lookup = compiler.lookup
        unchanged = isinstance(field.expression, Path) and field.expression == target
        compiler.stored(target, unchanged)
        if not target.steps:
            return _store_variable(target.root, evaluate)
        return _store_path(target, evaluate, lookup, self._text)


def implied_target(expression: Expression, position: int) -> Path:
    """Where a field without AS stores its value."""
    if isinstance(expression, Path):
        return expression
    if isinstance(expression, Slice):
        return expression.path
    if isinstance(expression, Literal) and isinstance(expression.value, str):
        return Path(expression.value, (), expression.place)
    # Rules must not depend on this name: it begins as no variable can, so that none can read it.
    return Path(f"_{position + 1}", (), expression.place)


def _store_element(target: Path) -> Callable[[Output, Value], Output]:
    """A function that gives the results of FOREACH with an element, or with the array itself, under its name."""

    def stored(results: Output, value: Value) -> Output:
        root, steps = target.root, target.steps
        return {**results, root: put(results.get(root, UNDEFINED), steps, value, lambda name: UNDEFINED)}

    return stored


def _store_variable(name: str, evaluate: Evaluate) -> StoreField:
    def store(columns: Columns, output: Output) -> None:
        output[name] = evaluate(columns, output)

    return store


def _store_path(
    target: Path, evaluate: Evaluate, lookup: Callable[[Columns, Output, str], Value], text: str
) -> StoreField:
    root, steps = target.root, target.steps

    def store(columns: Columns, output: Output) -> None:
        value = evaluate(columns, output)
        present = output.get(root, UNDEFINED)
        if root == "payload" and isinstance(present, str | bytes):
            try:
                present = decode_json(present)
            except EvaluationFault as fault:
                raise RuleEvaluationError(f"the payload to be edited is {fault}", text, target.place) from None
        output[root] = put(present, steps, value, lambda name: lookup(columns, output, name))

    return store
