"""The broker's own databases keep their names."""

import pytest

from config.writing import Write, mistakes_in


@pytest.mark.parametrize("name", ["delayed", "messages", "retained", "sessions", "shared_groups"])
def test_a_further_database_has_no_name_of_the_brokers_own(write: Write, name: str) -> None:
    (mistake,) = mistakes_in(write(f'durable_storage.databases.{name}.topics = ["a/#"]'))
    assert f"durable_storage.databases.{name}: the broker has databases of its own: delayed, messages" in mistake
