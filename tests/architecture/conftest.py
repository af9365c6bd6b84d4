"""What the checks share goes when they are done."""

from collections.abc import Generator
from pathlib import Path
from typing import Final

import pytest

from architecture import syntax

_HERE: Final = Path(__file__).parent


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Forget the syntax of all modules, a million objects, after the last test of this folder."""
    result = yield
    if nextitem is None or nextitem.path.parent != _HERE:
        syntax.nodes.cache_clear()
    return result
