"""The short form of tests that chance makes, which `make test` has, and the whole one, which `make test-long` has."""

import os
from typing import Final

import pytest
from _pytest.mark import ParameterSet

_IS_WHOLE: Final = os.environ.get("HELIOGRAPH_TESTS") == "whole"
_SHORT: Final = 0.4


def examples(count: int) -> int:
    """How many examples of a property are tried.

    Args:
        count: How many they are in the whole form.
    """
    return count if _IS_WHOLE else max(1, round(_SHORT * count))


def seeds(count: int, short: int) -> list[ParameterSet]:
    """What a test of histories is parametrized with, each of which a seed decides.

    Args:
        count: How many seeds there are; those that are not in the short form are marked `long`.
        short: How many of them are in the short form.
    """
    return [pytest.param(seed, marks=() if seed < short else pytest.mark.long) for seed in range(count)]
