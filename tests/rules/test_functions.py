"""Whatever a function is given, it gives a value or a fault; nothing else leaves it."""

import itertools
import random
from typing import Final

from heliograph.rules.columns import MessageColumns
from heliograph.rules.environment import Environment
from heliograph.rules.errors import EvaluationFault
from heliograph.rules.functions import FUNCTIONS
from heliograph.rules.functions.definition import Function
from heliograph.rules.operators import CALCULATIONS, RELATIONS
from heliograph.rules.values import UNDEFINED, Bits, Value, compare
from support.cases import cases

_BITS: Final = Bits(5, 3)
_SCALARS: Final[list[Value]] = [UNDEFINED, None, True, 0, -1, 3, 2**70, 1.5, -0.0, 1e300, _BITS]
_STRINGS: Final[list[Value]] = ["", "a", "1", "[1]", '{"a":1}', "\0", b"\xff", "second", "%Y"]
_ARRAYS: Final[list[Value]] = [[], [1, "a", _BITS], [UNDEFINED, None]]
_MAPS: Final[list[Value]] = [{}, {"a": _BITS}, {"a": {"b": 1}}]
VALUES: Final = (*_SCALARS, *_STRINGS, *_ARRAYS, *_MAPS)
_TRIES: Final = 200
# A program for each of them would take a while, and values reach it as JSON only.
_LEFT_OUT: Final = frozenset({"jq"})


def _try(function: Function, arguments: tuple[Value, ...], columns: MessageColumns) -> None:
    try:
        function.call(arguments, columns)
    except EvaluationFault:
        return


@cases("name", [name for name in FUNCTIONS if name not in _LEFT_OUT])
def test_a_function_only_raises_faults(name: str) -> None:
    function, columns = FUNCTIONS[name].bound(Environment()), MessageColumns("a/b", b'{"a":1}')
    chance = random.Random(name)
    for count in range(function.required, len(function.parameters) + 1 + function.is_variadic):
        chosen: list[tuple[Value, ...]] = [(value,) for value in VALUES] if count == 1 else []
        chosen += [tuple(chance.choice(VALUES) for _ in range(count)) for _ in range(_TRIES if count else 1)]
        for arguments in chosen:
            _try(function, arguments, columns)


def test_operators_only_raise_faults() -> None:
    for one, other in itertools.product(VALUES, repeat=2):
        for sign in (*CALCULATIONS, *RELATIONS):
            try:
                _ = CALCULATIONS[sign](one, other) if sign in CALCULATIONS else compare(sign, one, other)
            except EvaluationFault:
                continue


def test_bits_compare_with_strings_bit_by_bit_and_the_shorter_is_less() -> None:
    assert compare("<", Bits(0b101, 3), Bits(0b1010, 4))
    assert compare("=", Bits(0b101, 3), Bits(0b101, 3))
    assert compare("<", Bits(0b0110, 4), "a")
    assert compare(">", Bits(0b01100001_1, 9), "a")
    assert compare(">", Bits(1, 1), [1])
