"""What is done as memory fills: in which order, to whom, and when it ends."""

from pathlib import Path

from heliograph.node import memory_policy as policy
from heliograph.node.memory_limit import limit_bytes, resident
from heliograph.settings.units import Percentage
from support.cases import cases

GIB = 1 << 30


def test_the_stages_come_one_after_the_other() -> None:
    stages = [policy.stage_of(percent * GIB // 100 + 1, GIB, 0) for percent in range(101)]
    assert stages == sorted(stages)
    assert set(stages) == {0, 1, 2, 3, 4, 5}


@cases("before", range(1, 6))
def test_a_stage_ends_only_when_there_is_clearly_more_room(before: int) -> None:
    begins = next(percent for percent in range(101) if policy.stage_of(percent * GIB // 100 + 1, GIB, 0) >= before)
    assert policy.stage_of((begins - 4) * GIB // 100, GIB, before) == before
    assert policy.stage_of((begins - 7) * GIB // 100, GIB, before) < before
    assert policy.stage_of(0, GIB, before) == 0


def test_who_holds_most_is_told_and_nobody_else() -> None:
    holdings = {f"small-{number}": 2000 for number in range(1000)} | {"large": 50 << 20, "larger": 60 << 20}
    assert policy.heavy(holdings) == {"larger": 60 << 20, "large": 50 << 20}
    assert policy.heavy({f"small-{number}": 2000 for number in range(1000)}) == {}


def test_connections_are_closed_that_buffer_most_and_no_more_than_needed() -> None:
    buffers = {1: 10, 2: GIB // 10, 3: GIB // 20, 4: GIB // 100}
    assert policy.to_close(buffers, GIB * 92 // 100, GIB) == [2]
    assert policy.to_close(buffers, GIB, GIB) == [2, 3, 4]
    assert policy.to_close(buffers, GIB // 2, GIB) == []


def machine(root: Path, total_kb: int, groups: dict[str, str] | None = None, line: str = "0::/\n") -> Path:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/meminfo").write_text(f"MemFree: 1 kB\nMemTotal:  {total_kb} kB\n")
    (root / "proc/self/cgroup").write_text(line)
    for path, text in (groups or {}).items():
        file = root / "sys/fs/cgroup" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")
    return root


def test_a_part_is_of_the_machine_or_of_the_cgroup_whichever_is_less(tmp_path: Path) -> None:
    part = Percentage(50)
    assert limit_bytes(part, machine(tmp_path / "bare", 1000)) == 512_000
    group = {"a/b/memory.max": "max", "a/memory.max": "400000", "memory.max": "max"}
    assert limit_bytes(part, machine(tmp_path / "two", 1000, group, "0::/a/b\n")) == 200_000
    of_host = {"memory.max": "300000"}
    assert limit_bytes(part, machine(tmp_path / "container", 1000, of_host, "0::/docker/abc\n")) == 150_000
    old = {"memory/a/memory.limit_in_bytes": "200000", "memory/memory.limit_in_bytes": str((1 << 63) - 4096)}
    assert limit_bytes(part, machine(tmp_path / "one", 1000, old, "5:cpu,memory:/a\n3:pids:/a\n")) == 100_000


def test_a_size_is_itself_and_infinity_no_limit(tmp_path: Path) -> None:
    assert limit_bytes(GIB, tmp_path) == GIB
    assert limit_bytes(None, tmp_path) is None
    assert resident().all_bytes > resident().own_bytes > 1 << 20
