"""Nodes with their HTTP API; what runs in the event loop of a test runs on uvloop, as in production."""

import asyncio
import io
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stdout
from typing import TYPE_CHECKING

import httpx
import pytest
import uvloop

from support.management import ManagedNode, Served

if TYPE_CHECKING:
    from support.api_node import ApiNode

_SETTINGS = "durable_storage.flight.enable = false"


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"uvloop": uvloop.new_event_loop}


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


@pytest.fixture(scope="module")
def operator(managed: Served) -> Iterator[httpx.Client]:
    """The API of that node as a key with the role operator asks it."""
    from heliograph.cli.main import main

    keys = ["ctl", "--data-dir", str(managed.data_dir), "api_keys"]
    with redirect_stdout(io.StringIO()) as out:
        assert main([*keys, "add", "operating", "--role", "operator", "--json"]) == 0
    made = json.loads(out.getvalue())
    with managed.client((made["key"]["api_key"], made["secret"])) as client:
        yield client
    assert main([*keys, "del", "operating"]) == 0
