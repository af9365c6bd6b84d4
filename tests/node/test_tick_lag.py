"""How late the ticks of a node come, and when that is more than one turn that took long."""

from heliograph.node.ticker import TickLag
from support.cases import cases


def lag_of(*late_s: float) -> TickLag:
    lag = TickLag()
    for one in late_s:
        lag.add(one)
    return lag


@cases(
    ("late_s", "lasting_s"),
    [
        ((), 0.0),
        ((1.5,), 0.0),
        ((0.0, 1.5), 0.0),
        ((1.5, 0.01), 0.01),
        ((1.5, 1.2), 1.2),
        ((1.2, 1.5, 1.4), 1.4),
        ((1.5, 0.0, 1.5), 0.0),
    ],
)
def test_a_single_tick_that_is_late_is_no_lasting_lag(late_s: tuple[float, ...], lasting_s: float) -> None:
    assert lag_of(*late_s).lasting_s == lasting_s


def test_the_last_and_the_latest_are_known() -> None:
    lag = lag_of(0.1, 1.5, 0.2)
    assert (lag.last_s, lag.longest_s) == (0.2, 1.5)
