"""What the evaluation of one document may still cost: steps, the size of values, their depth."""

from __future__ import annotations

from typing import Final

from heliograph.hocon.errors import HoconError, SourcePosition
from heliograph.hocon.limits import ParsingLimits
from heliograph.hocon.values import Node

# Evaluation steps per definition that no ordinary document comes near.
_STEPS_PER_NODE: Final = 64
# Entries of a list or object that are copied in the time of one step.
_COPIES_PER_STEP: Final = 8
# Weight of the values that a text can write, per character.
_WEIGHT_PER_CHARACTER: Final = 16


class Budget:
    """Counts down the steps of one evaluation and checks the values that it makes.

    Args:
        limits: Caps on what substitutions add; what the texts themselves write is always allowed.
        nodes: Number of definitions and list elements in the document.
        text_length: Characters of its texts.
    """

    def __init__(self, limits: ParsingLimits, nodes: int, text_length: int) -> None:
        self._limits = limits
        self._weight_allowed = limits.expansion + _WEIGHT_PER_CHARACTER * text_length
        self._steps_left = limits.steps + _STEPS_PER_NODE * nodes

    def spend(self, steps: int, position: SourcePosition) -> None:
        """Take steps away.

        Raises:
            HoconError: None are left.
        """
        self._steps_left -= steps
        if self._steps_left < 0:
            raise HoconError.at(
                position,
                f"substitutions need more than {self._limits.steps} evaluation steps, which is the limit: "
                "they refer to one another in too many ways",
            )

    def copy(self, entries: int, position: SourcePosition) -> None:
        """Take away the steps for copying the entries of a list or object."""
        self.spend(entries // _COPIES_PER_STEP, position)

    def check(self, node: Node) -> Node:
        """Give back a value that is within the limits.

        Raises:
            HoconError: It is not.
        """
        self.check_weight(node.weight, node.position)
        if node.depth > self._limits.depth:
            raise HoconError.at(
                node.position, f"the value is nested more than {self._limits.depth} levels deep, which is the limit"
            )
        return node

    def check_weight(self, weight: int, position: SourcePosition) -> None:
        """Check the size of a value before it is made.

        Raises:
            HoconError: It would be too large.
        """
        if weight > self._weight_allowed:
            raise HoconError.at(
                position, f"substitutions expand to more than {self._weight_allowed} bytes, which is the limit"
            )
