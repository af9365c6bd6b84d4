from collections.abc import Iterator

import pytest

from support.schemas import installed_schemas


@pytest.fixture(autouse=True)
def schemas() -> Iterator[None]:
    with installed_schemas():
        yield
