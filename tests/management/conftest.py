"""Nodes with their management processes, which take seconds to start."""

from collections.abc import Iterator

import pytest

from support.management import ManagedNode

_SETTINGS = "durable_storage.flight.enable = false"


@pytest.fixture(scope="session")
def shared_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManagedNode]:
    """The node of all modules that are not marked `own_node`; their tests leave it as they find it."""
    with ManagedNode(tmp_path_factory.mktemp("shared"), _SETTINGS) as node:
        yield node


@pytest.fixture(scope="module")
def managed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManagedNode]:
    """A node that serves the HTTP API."""
    if request.node.get_closest_marker("own_node") is None:
        yield request.getfixturevalue("shared_node")
        return
    with ManagedNode(tmp_path_factory.mktemp("managed"), _SETTINGS) as node:
        yield node
