"""Records of options that are made of settings: names, units, and what stands for a setting that is switched off."""

from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from mypy_extensions import i64

from heliograph.settings.records import record
from heliograph.settings.units import Rate
from support.cases import cases


@dataclass(frozen=True)
class Settings:
    interval: float | None = None
    factor: float = 1.333
    length: int | None = None
    rate: Rate | None = None
    table: Mapping[str, int] | None = None


@dataclass(frozen=True)
class Options:
    interval_us: i64
    interval_s: i64
    factor_percent: i64
    length: i64
    rate: float


@dataclass(frozen=True)
class OtherOptions:
    name: str
    interval_us: int | None
    rate: tuple[int, int] | None
    table: dict[str, int] | None


def test_an_option_has_the_unit_that_its_name_ends_with() -> None:
    settings = Settings(interval=2.5, length=7, rate=Rate(30, 60.0))
    assert record(Options, settings) == Options(2_500_000, 2, 133, 7, 0.5)
    assert record(OtherOptions, settings, name="n") == OtherOptions("n", 2_500_000, (30, 60_000_000), None)


def test_a_setting_that_is_switched_off_is_0_or_none() -> None:
    assert record(Options, Settings()) == Options(0, 0, 133, 0, 0.0)
    assert record(OtherOptions, Settings(), name="n") == OtherOptions("n", None, None, None)


@cases("name", ["interval_us", "length", "factor_percent"])
def test_an_option_is_no_larger_than_the_kernel_can_count(name: str) -> None:
    options = record(Options, Settings(interval=1e200, factor=1e200, length=10**30))
    assert 1 << 30 <= getattr(options, name) < 1 << 63


def test_groups_of_settings_in_their_order() -> None:
    @dataclass(frozen=True)
    class Group:
        length: int = 1
        name: str = "n"

    assert record(OtherOptions, Group(), Settings()).name == "n"
    assert record(Options, Group(), Settings()).length == 1


def test_an_option_without_a_setting_and_a_value_without_an_option_are_mistakes() -> None:
    with pytest.raises(AttributeError, match="no setting name for the option name"):
        record(OtherOptions, Settings())
    with pytest.raises(TypeError):
        record(Options, Settings(), name="n")
