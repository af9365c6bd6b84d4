"""The steps of strangers, on one broker: the short form of `scripts/strangers.py`."""

from collections.abc import Iterator

import pytest

from strangers.steps import STEPS, Place, add_users, prepare


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("strangers")
    with prepare(directory) as node:
        found = Place(node, directory)
        add_users(found)
        yield found
        assert node.stop() == 0, node.log.read_text()


@pytest.mark.parametrize("what", STEPS)
def test_step(place: Place, what: str) -> None:
    STEPS[what](place)
