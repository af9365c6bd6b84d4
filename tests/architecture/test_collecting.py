"""Collecting the tests is light: each worker collects all of them, and runs some."""

from typing import Final

import pytest

from support.collecting import IMPORTED

# Few tests need them: those import them when they run.
HEAVY: Final = {"deltalake", "openapi_spec_validator", "pyiceberg", "schemathesis"}


def test_what_is_heavy_is_imported_by_the_tests_that_need_it(request: pytest.FixtureRequest) -> None:
    assert request.config.stash[IMPORTED] & HEAVY == set()
