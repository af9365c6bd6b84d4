"""The in-broker engine: a rule compiled once into Python closures, applied to one message after another.

Closures, because they are the fastest thing that plain Python offers short of generated source: what is known when the
rule is compiled (operators, names, which variables an alias may shadow) is decided then and costs an evaluation
nothing. `heliograph.rules.expressions` compiles the expressions; this module knows statements: fields, aliases, WHERE.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from heliograph.mqtt.topic import topic_matches
from heliograph.rules.columns import Columns
from heliograph.rules.errors import EvaluationFault, RuleEvaluationError, RuleSyntaxError
from heliograph.rules.expressions import Evaluate, ExpressionCompiler, Output
from heliograph.rules.json_text import decode_json
from heliograph.rules.parser import parse_rule
from heliograph.rules.paths import put
from heliograph.rules.tree import Expression, Field, Literal, Path, Place, Select, Slice, Star
from heliograph.rules.values import UNDEFINED, Value

StoreField: TypeAlias = Callable[[Columns, Output], None]


class CompiledRule:
    """A rule ready to be applied. It holds no state of any evaluation, so every thread may use it.

    Args:
        rule: The rule's text, or its tree.

    Raises:
        RuleSyntaxError: The text is not a rule.
    """

    def __init__(self, rule: str | Select) -> None:
        self.tree = parse_rule(rule) if isinstance(rule, str) else rule
        self._text = self.tree.text
        try:
            compiler = ExpressionCompiler(self._text)
            self._fields = [self._field(field, position, compiler) for position, field in enumerate(self.tree.fields)]
            where = self.tree.where
            self._where = None if where is None else compiler.condition(where)
        except RecursionError:
            whole = Place(0, len(self._text), 1, 1)
            raise RuleSyntaxError("the rule is nested too deeply", self._text, whole) from None

    @property
    def topics(self) -> tuple[str, ...]:
        """The topic filters of FROM."""
        return self.tree.topics

    def matches(self, topic: str) -> bool:
        """Whether the rule wants messages with this topic name."""
        return any(topic_matches(topic, topic_filter) for topic_filter in self.tree.topics)

    def apply(self, columns: Columns | Mapping[str, Value]) -> list[dict[str, Value]]:
        """Evaluate the rule for one message whose topic it wants.

        Args:
            columns: The columns of the message.

        Returns:
            The output rows: one, or none where WHERE is not true. They share values with the columns, so neither may be
            changed in place.

        Raises:
            RuleEvaluationError: The evaluation failed; nothing is output.
        """
        if not isinstance(columns, Columns):
            columns = Columns(columns)
        output: Output = {}
        try:
            for store in self._fields:
                store(columns, output)
            if self._where is not None and not self._where(columns, output):
                return []
        except RecursionError:
            whole = Place(0, len(self._text), 1, 1)
            raise RuleEvaluationError("a value is nested too deeply", self._text, whole) from None
        return [output]

    def __repr__(self) -> str:
        return f"CompiledRule({' '.join(self._text.split())!r})"

    def _field(self, field: Field | Star, position: int, compiler: ExpressionCompiler) -> StoreField:
        if isinstance(field, Star):
            # There is nothing to note for the compiler: what `*` stores reads the same from the columns.
            return lambda columns, output: output.update(columns.all())
        evaluate = compiler.value(field.expression)
        target = field.alias or implied_target(field.expression, position)
        lookup = compiler.lookup
        unchanged = isinstance(field.expression, Path) and field.expression == target
        compiler.stored(target, unchanged)
        if not target.steps:
            return _store_variable(target.root, evaluate)
        return _store_path(target, evaluate, lookup, self._text)


def implied_target(expression: Expression, position: int) -> Path:
    """Where a field without AS stores its value.

    Args:
        expression: The field.
        position: How many fields stand before it.
    """
    if isinstance(expression, Path):
        return expression
    if isinstance(expression, Slice):
        return expression.path
    if isinstance(expression, Literal) and isinstance(expression.value, str):
        return Path(expression.value, (), expression.place)
    # Rules must not depend on this name: it begins as no variable can, so that none can read it.
    return Path(f"_{position + 1}", (), expression.place)


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
