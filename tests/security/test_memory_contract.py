"""Every memory attack at once: the broker lives, others are served, memory stays below the limit, and is accounted."""

import importlib

import pytest

from attack import soak
from support.cgroup import memory_cgroup

pytestmark = [pytest.mark.service, pytest.mark.slow]
LIMIT_MIB = 512


def test_every_memory_attack_at_once() -> None:
    """The account is of a quiet moment behind the attacks (see `soak`), so that it does not depend on the moment.

    What several clients wait for is counted for each of them: the owners may have more together than the process.
    """
    importlib.import_module("attack.kinds")
    found = soak.run(5.0, LIMIT_MIB)
    assert found.most_mib < LIMIT_MIB, found.summary()
    assert found.statistics["memory.used"] <= found.statistics["memory.limit"], found.summary()
    assert found.accounted >= 0.93, found.summary()
    assert found.held_bytes <= 1.1 * found.statistics["memory.used"], found.summary()


@pytest.mark.long  # only where somebody names a directory to make a cgroup in
def test_every_memory_attack_at_once_within_a_limit_of_the_kernel() -> None:
    importlib.import_module("attack.kinds")
    with memory_cgroup(LIMIT_MIB << 20) as cgroup:
        found = soak.run(8.0, LIMIT_MIB, cgroup)  # which fails if the kernel ends the broker
    assert found.statistics["memory.limit"] <= LIMIT_MIB << 20, found.summary()
    assert found.accounted >= 0.93, found.summary()
