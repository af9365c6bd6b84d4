"""What the storage tests share: messages that look like published ones, and databases in a temporary directory."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from heliograph.processes.programs import Programs
from heliograph.storage.columnar.database import LocalDatabase
from heliograph.storage.interface import ColumnarOptions, DatabaseOptions
from storage.messages import MakeMessage, message_maker
from support.databases import open_database
from support.python_copies import python


@pytest.fixture
def make_message() -> MakeMessage:
    """A function that makes messages, each with an id of its own."""
    return message_maker()


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """A node's empty data directory."""
    return tmp_path / "data"


@pytest.fixture
def copies() -> Programs:
    """Programs of the node as copies of a process that has loaded them, which costs a tenth of a start."""
    return Programs(python)


@pytest.fixture
def options() -> DatabaseOptions:
    """Two shards, and thresholds small enough to be met."""
    return DatabaseOptions(n_shards=2, layout=ColumnarOptions(wildcard_thresholds=(3, 2)))


@pytest.fixture
def database(data_dir: Path) -> Iterator[LocalDatabase]:
    """An open database with the default options."""
    database = open_database(data_dir)
    yield database
    database.close()
