"""The faults that `make mutations` puts back can be put back, and their tests are there."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def program() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mutations", ROOT / "scripts/mutations.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutations"] = module  # where dataclasses look
    spec.loader.exec_module(module)
    return module


def test_each_fault_can_be_put_back(program: ModuleType) -> None:
    assert [problem for fault in program.faults() for problem in program.misplaced(fault)] == []


def test_each_fault_has_a_name_of_its_own_and_tests_that_are_there(program: ModuleType) -> None:
    faults = program.faults()
    assert len({fault.name for fault in faults}) == len(faults) >= 50
    named = {(fault.name, test.split("::")[0]) for fault in faults for test in fault.tests}
    assert {(name, file) for name, file in named if not (ROOT / file).exists()} == set()
