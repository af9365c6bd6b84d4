"""Every memory attack at once: the broker lives, others are served, memory stays below the limit, and is accounted."""

import importlib

import pytest

from attack import soak

pytestmark = [pytest.mark.service, pytest.mark.slow]
LIMIT_MIB = 512


def test_every_memory_attack_at_once() -> None:
    importlib.import_module("attack.kinds")
    found = soak.run(8.0, LIMIT_MIB)
    assert found.most_mib < LIMIT_MIB, found.summary()
    assert found.statistics["memory.used"] <= found.statistics["memory.limit"], found.summary()
    assert found.accounted >= 0.9, found.summary()
    assert found.held_bytes <= 1.1 * found.statistics["memory.used"], found.summary()
