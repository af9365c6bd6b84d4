"""Nodes with their HTTP API."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from support.management import ManagedNode

if TYPE_CHECKING:
    from support.api_node import ApiNode

_SETTINGS = "durable_storage.flight.enable = false"


@pytest.fixture(scope="module")
def managed(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[ApiNode]":
    """A node that serves the HTTP API, in this process; each module has its own."""
    # Imported here: a run of other tests needs neither node nor API.
    from support.api_node import ApiNode

    with ApiNode(tmp_path_factory.mktemp("managed"), _SETTINGS) as node:
        yield node


@pytest.fixture(scope="module")
def managed_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManagedNode]:
    """A node and its management process, for what only processes show."""
    with ManagedNode(tmp_path_factory.mktemp("process"), _SETTINGS) as node:
        yield node
