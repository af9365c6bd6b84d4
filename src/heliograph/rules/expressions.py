"""Expressions compiled into closures over the columns of a message and the output built so far.

Every closure takes `(columns, output)` and returns a value; those of conditions return a bool. A closure that can fail
turns the `EvaluationFault` of what it calls into a `RuleEvaluationError` with its own place.
"""

from collections.abc import Callable, Mapping
from typing import Final, NoReturn, TypeAlias

from heliograph.rules import tree
from heliograph.rules.columns import Columns
from heliograph.rules.environment import Environment
from heliograph.rules.errors import EvaluationFault, RuleEvaluationError
from heliograph.rules.functions import FUNCTIONS
from heliograph.rules.operators import CALCULATIONS, RELATIONS, SIMPLE_KINDS, matches, refuse_comparison
from heliograph.rules.paths import range_values, read_slice, read_steps, written_path
from heliograph.rules.values import UNDEFINED, Value, compare, describe, equal_exactly, is_number

Output: TypeAlias = dict[str, Value]
Evaluate: TypeAlias = Callable[[Columns, Output], Value]
Test: TypeAlias = Callable[[Columns, Output], bool]

_CONDITION_NODES: Final = (tree.Comparison, tree.InList, tree.Logical, tree.Not)


class ExpressionCompiler:
    """Compiles the expressions of one statement, in the order of its fields.

    It keeps which variables the fields compiled so far have stored, because only those need to be looked for in the
    output before the columns.

    Args:
        metadata: The column `metadata` as this rule sees it; None where it is a column like the others.

    Attributes:
        may_block: Whether anything compiled so far may wait for another process or machine.
    """

    def __init__(self, text: str, environment: Environment, metadata: Mapping[str, Value] | None = None) -> None:
        self._text = text
        self._environment = environment
        self.metadata: Output | None = None if metadata is None else dict(metadata)
        self._stored: set[str] = set()
        self.may_block = False

    def stored(self, target: tree.Path, unchanged: bool) -> None:
        """Note that a field stores at `target`; `unchanged` says that it is the column of this very name."""
        # A column selected as it is reads the same from the output and from the columns.
        if not unchanged or target.steps:
            self._stored.add(target.root)

    def lookup(self, columns: Columns, output: Output, name: str) -> Value:
        """A variable: of the output, and where that has none, of the columns."""
        value = output.get(name, UNDEFINED)
        return self.column(columns, name) if value is UNDEFINED else value

    def column(self, columns: Columns, name: str) -> Value:
        return self.metadata if name == "metadata" and self.metadata is not None else columns.get(name)

    def value(self, node: tree.Expression) -> Evaluate:
        if isinstance(node, tree.Literal):
            constant = node.value
            return lambda columns, output: constant
        if isinstance(node, tree.Path):
            return self._path(node)
        if isinstance(node, tree.Arithmetic):
            return self._arithmetic(node)
        if isinstance(node, _CONDITION_NODES):
            return self.condition(node)
        if isinstance(node, tree.Call):
            return self._call(node)
        if isinstance(node, tree.Case):
            return self._case(node)
        if isinstance(node, tree.Unary):
            return self._unary(node)
        return self._sequence(node)

    def condition(self, node: tree.Expression) -> Test:
        if isinstance(node, tree.Comparison):
            return self._comparison(node)
        if isinstance(node, tree.Logical):
            return self._logical(node)
        if isinstance(node, tree.Not):
            return self._negation(node)
        if isinstance(node, tree.InList):
            return self._membership(node)
        if isinstance(node, tree.Literal) and isinstance(node.value, bool):
            constant = node.value
            return lambda columns, output: constant
        if isinstance(node, tree.Call):
            return self._boolean_call(node)
        return self._no_condition(node)

    def _fail(self, problem: object, place: tree.Place) -> NoReturn:
        raise RuleEvaluationError(str(problem), self._text, place) from None

    # Variables and paths

    def _path(self, node: tree.Path) -> Evaluate:
        name = node.root
        from_columns = self._column_path(node)
        if name not in self._stored:
            return from_columns
        steps, lookup = node.steps, self.lookup

        def read(columns: Columns, output: Output) -> Value:
            value = read_steps(output.get(name, UNDEFINED), steps, lambda root: lookup(columns, output, root))
            return from_columns(columns, output) if value is UNDEFINED else value

        return read

    def _column_path(self, node: tree.Path) -> Evaluate:
        name, steps, lookup = node.root, node.steps, self.lookup
        if name == "metadata" and self.metadata is not None:
            metadata = self.metadata
            return lambda columns, output: read_steps(metadata, steps, lambda root: lookup(columns, output, root))
        if not steps:
            return lambda columns, output: columns.get(name)
        if name == "payload":
            return self._payload_path(node)
        return lambda columns, output: read_steps(columns.get(name), steps, lambda root: lookup(columns, output, root))

    def _payload_path(self, node: tree.Path) -> Evaluate:
        steps, first = node.steps, node.steps[0]
        fail, place = self._fail, node.place

        def read(columns: Columns, output: Output) -> Value:
            try:
                document = columns.document()
            except EvaluationFault as fault:
                fail(f"{fault}; it is needed for {written_path(node)}", place)
            # A payload that is the JSON text of a string is not looked into, unlike a string inside of it.
            if not isinstance(document, dict):
                return UNDEFINED
            return read_steps(document, steps, lambda root: document.get(root, UNDEFINED))

        def read_one_key(columns: Columns, output: Output) -> Value:
            try:
                document = columns.document()
            except EvaluationFault as fault:
                fail(f"{fault}; it is needed for {written_path(node)}", place)
            return document.get(key, UNDEFINED) if isinstance(document, dict) else UNDEFINED

        if len(steps) == 1 and isinstance(first, tree.Key):
            key = first.name
            return read_one_key
        return read

    # Operators

    def _arithmetic(self, node: tree.Arithmetic) -> Evaluate:
        left, right, place = self.value(node.left), self.value(node.right), node.place
        calculate = CALCULATIONS[node.operator]
        fail = self._fail

        def evaluate(columns: Columns, output: Output) -> Value:
            one, other = left(columns, output), right(columns, output)
            try:
                return calculate(one, other)
            except EvaluationFault as fault:
                fail(fault, place)

        return evaluate

    def _unary(self, node: tree.Unary) -> Evaluate:
        operand, negative, place, fail = self.value(node.operand), node.operator == "-", node.place, self._fail

        def evaluate(columns: Columns, output: Output) -> Value:
            value = operand(columns, output)
            if not is_number(value):
                fail(f"a sign needs a number, not {describe(value)}", place)
            return -value if negative else value  # type: ignore[operator]  # it is a number

        return evaluate

    def _comparison(self, node: tree.Comparison) -> Test:
        left, right, sign, place = self.value(node.left), self.value(node.right), node.operator, node.place
        fail = self._fail
        relate = RELATIONS.get(sign)
        if relate is None:
            return self._topic_comparison(node, left, right)

        def evaluate(columns: Columns, output: Output) -> bool:
            one, other = left(columns, output), right(columns, output)
            # 0 is no kind, so that two kinds which are not simple do not count as the same.
            if SIMPLE_KINDS.get(type(one)) is (SIMPLE_KINDS.get(type(other)) or 0):
                return relate(one, other)
            try:
                return compare(sign, one, other)
            except EvaluationFault as fault:
                fail(fault, place)

        return evaluate

    def _topic_comparison(self, node: tree.Comparison, left: Evaluate, right: Evaluate) -> Test:
        sign, place, fail = node.operator, node.place, self._fail

        def evaluate(columns: Columns, output: Output) -> bool:
            one, other = left(columns, output), right(columns, output)
            try:
                return matches(one, other) if sign == "=~" else refuse_comparison(sign)
            except EvaluationFault as fault:
                fail(fault, place)

        return evaluate

    def _membership(self, node: tree.InList) -> Test:
        subject = self.value(node.subject)
        candidates = [self.value(candidate) for candidate in node.candidates]
        found = not node.negated

        def evaluate(columns: Columns, output: Output) -> bool:
            value = subject(columns, output)
            for candidate in candidates:
                if equal_exactly(value, candidate(columns, output)):
                    return found
            return not found

        return evaluate

    def _logical(self, node: tree.Logical) -> Test:
        left, right = self.condition(node.left), self.condition(node.right)
        if node.operator == "and":
            return lambda columns, output: left(columns, output) and right(columns, output)
        return lambda columns, output: left(columns, output) or right(columns, output)

    def _negation(self, node: tree.Not) -> Test:
        operand = self.value(node.operand)
        # The negation of what is no boolean is false, also of undefined.
        return lambda columns, output: operand(columns, output) is False

    def _boolean_call(self, node: tree.Call) -> Test:
        call, place, name, fail = self._call(node), node.place, node.name, self._fail

        def evaluate(columns: Columns, output: Output) -> bool:
            value = call(columns, output)
            if not isinstance(value, bool):
                fail(f"a condition needs true or false, but {name} gives {describe(value)}", place)
            return value

        return evaluate

    def _no_condition(self, node: tree.Expression) -> Test:
        fail, place = self._fail, node.place
        hint = f"; write {written_path(node)} = true" if isinstance(node, tree.Path) else ""

        def evaluate(columns: Columns, output: Output) -> bool:
            fail(f"a condition needs a comparison, IN, AND, OR, NOT or a function that gives a boolean{hint}", place)

        return evaluate

    # CASE, calls, lists

    def _case(self, node: tree.Case) -> Evaluate:
        default = (lambda columns, output: UNDEFINED) if node.default is None else self.value(node.default)
        if node.subject is not None:
            return self._simple_case(node, self.value(node.subject), default)
        branches = [(self.condition(branch.when), self.value(branch.then)) for branch in node.branches]

        def evaluate(columns: Columns, output: Output) -> Value:
            for test, result in branches:
                if test(columns, output):
                    return result(columns, output)
            return default(columns, output)

        return evaluate

    def _simple_case(self, node: tree.Case, subject: Evaluate, default: Evaluate) -> Evaluate:
        branches = [(self.value(branch.when), self.value(branch.then)) for branch in node.branches]

        def evaluate(columns: Columns, output: Output) -> Value:
            value = subject(columns, output)
            for wanted, result in branches:
                if equal_exactly(value, wanted(columns, output)):
                    return result(columns, output)
            return default(columns, output)

        return evaluate

    def _call(self, node: tree.Call) -> Evaluate:
        arguments = [self.value(argument) for argument in node.arguments]
        known, place, fail = FUNCTIONS.get(node.name), node.place, self._fail
        if known is None:
            return self._unknown_call(node, arguments)
        self.may_block |= known.may_block
        if known.blocks_on is not None and node.arguments:
            first = node.arguments[0].value if isinstance(node.arguments[0], tree.Literal) else UNDEFINED
            self.may_block |= known.blocks_on(self._environment, first)
        function = known.bound(self._environment)

        def evaluate(columns: Columns, output: Output) -> Value:
            values = [argument(columns, output) for argument in arguments]
            try:
                return function.call(values, columns)
            except EvaluationFault as fault:
                fail(fault, place)

        return evaluate

    def _unknown_call(self, node: tree.Call, arguments: list[Evaluate]) -> Evaluate:
        module, dot, name = node.name.rpartition(".")
        problem = f"there is no module {module} with a function {name}" if dot else f"there is no function {name}"
        place, fail = node.place, self._fail

        def evaluate(columns: Columns, output: Output) -> Value:
            for argument in arguments:
                argument(columns, output)
            fail(problem, place)

        return evaluate

    def _sequence(self, node: tree.ListLiteral | tree.RangeLiteral | tree.Slice) -> Evaluate:
        fail, place = self._fail, node.place
        if isinstance(node, tree.ListLiteral):
            items = [self.value(item) for item in node.items]
            return lambda columns, output: [item(columns, output) for item in items]
        path = self._path(node.path) if isinstance(node, tree.Slice) else None
        first, last = node.first, node.last

        def evaluate(columns: Columns, output: Output) -> Value:
            value = None if path is None else path(columns, output)
            try:
                return range_values(first, last) if path is None else read_slice(value, first, last)
            except EvaluationFault as fault:
                fail(fault, place)

        return evaluate
