"""Whether connections leave open files to others."""

import os

import pytest

from heliograph.transport import open_files
from heliograph.transport.open_files import OpenFiles


def test_the_reserve_stays_when_a_low_number_is_freed_and_taken_again(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = [os.open(os.devnull, os.O_RDONLY) for _ in range(16)]
    following = os.dup(taken[0])  # other tests' files may have the numbers behind those
    os.close(following)
    limit = following + 9
    monkeypatch.setattr(open_files, "limit", lambda: limit)
    monkeypatch.setattr(open_files, "reserve", lambda files_max: 4)
    files = OpenFiles()
    connections: list[int] = []
    try:
        while files.has_room(taken[0]):
            connections.append(os.dup(taken[0]))
        count = len(connections)
        for _ in range(20):  # a connection goes, another takes its number, and one more would like to come
            os.close(connections.pop(0))
            while files.has_room(taken[0]):
                connections.append(os.dup(taken[0]))
            assert len(connections) == count
    finally:
        for descriptor in (*taken, *connections):
            os.close(descriptor)
