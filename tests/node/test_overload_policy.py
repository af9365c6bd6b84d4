"""When a node is overloaded, and how much it sheds, from what is measured."""

from heliograph.node.overload import CONNECTIONS, MANAGEMENT, QOS0, UPKEEP, Overload

HIGH = {"turns": 1.5, "memory": 0.1}
BETWEEN = {"turns": 0.9, "memory": 0.1}
CALM = {"turns": 0.1, "memory": 0.1}


def stages(overload: Overload, *looks: dict[str, float]) -> list[int]:
    return [overload.look(readings) for readings in looks]


def test_a_burst_is_no_overload() -> None:
    overload = Overload()
    assert stages(overload, HIGH, HIGH, CALM, HIGH, CALM, CALM, HIGH, HIGH, CALM) == [0] * 9


def test_stages_begin_one_after_the_other_and_the_last_one_stays() -> None:
    overload = Overload()
    assert stages(overload, *[HIGH] * 8) == [0, 0, MANAGEMENT, CONNECTIONS, QOS0, UPKEEP, UPKEEP, UPKEEP]
    assert list(overload.causes) == ["turns"]


def test_between_the_thresholds_nothing_begins_and_nothing_ends() -> None:
    overload = Overload()
    stages(overload, *[HIGH] * 4)
    assert stages(overload, *[BETWEEN] * 10) == [CONNECTIONS] * 10
    assert overload.causes == {}


def test_it_ends_when_all_credits_are_back() -> None:
    overload = Overload()
    stages(overload, *[HIGH] * 9)
    assert stages(overload, *[CALM] * 6) == [QOS0, CONNECTIONS, MANAGEMENT, MANAGEMENT, MANAGEMENT, 0]
    assert stages(overload, HIGH, HIGH, HIGH) == [0, 0, MANAGEMENT]


def test_what_flickers_neither_ends_nor_begins_with_each_look() -> None:
    overload = Overload()
    stages(overload, *[HIGH] * 3)
    assert stages(overload, *[CALM, HIGH] * 5) == [MANAGEMENT] * 10


def test_where_nothing_is_measured_nothing_is_shed() -> None:
    assert stages(Overload(), *[{}] * 5) == [0] * 5
