"""Connections that a worker keeps from task to task."""

import pytest

from heliograph.pipeline.datasource.options import SourceOptions
from heliograph.pipeline.datasource.partitions import WorkerConnections


class FakeClient:
    """Says whether it was closed."""

    def __init__(self) -> None:
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture(autouse=True)
def made(monkeypatch: pytest.MonkeyPatch) -> list[FakeClient]:
    """All connections that were opened."""
    opened: list[FakeClient] = []

    def connect(self: SourceOptions, endpoint: str) -> FakeClient:
        opened.append(FakeClient())
        return opened[-1]

    monkeypatch.setattr(SourceOptions, "connect", connect)
    return opened


def options(token: str = "") -> SourceOptions:
    return SourceOptions.of({"token": token} if token else {})


def test_the_next_task_uses_the_connection_of_the_last(made: list[FakeClient]) -> None:
    connections = WorkerConnections()
    for _ in range(3):
        with connections.borrowed(options(), "reader:1"):
            pass
    with connections.borrowed(options(), "reader:2"), connections.borrowed(options("other"), "reader:1"):
        pass
    assert [client.is_closed for client in made] == [False, False, False]


def test_one_that_failed_or_was_left_in_the_middle_is_closed(made: list[FakeClient]) -> None:
    connections = WorkerConnections()
    with pytest.raises(ValueError, match="refused"), connections.borrowed(options(), "reader:1"):
        raise ValueError("refused")
    with connections.borrowed(options(), "reader:1"):
        pass
    assert [client.is_closed for client in made] == [True, False]


def test_two_at_once_have_their_own_and_one_is_kept(made: list[FakeClient]) -> None:
    connections = WorkerConnections()
    with connections.borrowed(options(), "reader:1"), connections.borrowed(options(), "reader:1"):
        pass
    assert sorted(client.is_closed for client in made) == [False, True]


def test_of_many_the_one_unused_for_longest_is_closed(made: list[FakeClient]) -> None:
    connections = WorkerConnections()
    for number in range(40):
        with connections.borrowed(options(f"token {number}"), "reader:1"):
            pass
    assert [client.is_closed for client in made] == [True] * 24 + [False] * 16
