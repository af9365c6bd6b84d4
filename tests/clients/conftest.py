"""A node in a process of its own, for clients that other people wrote.

`HELIOGRAPH_CLIENTS_PORT=1884 pytest tests/clients` asks another broker on this host the same questions.
"""

import os
import re
from collections.abc import Iterator

import pytest

from support.process import NodeProcess


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    """Host and port of a broker; one for the whole run, so a test uses client ids and topics of its own."""
    other = os.environ.get("HELIOGRAPH_CLIENTS_PORT")
    if other is not None:
        yield "127.0.0.1", int(other)
        return
    with NodeProcess(tmp_path_factory.mktemp("node"), "mqtt.max_inflight = 100") as node:
        yield "127.0.0.1", node.port
        assert node.stop() == 0, node.log.read_text()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A client id and topic prefix that no other test uses."""
    return re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())
