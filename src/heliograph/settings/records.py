"""Records of options: what a part of the program obeys, made of groups of settings.

A package below the configuration declares a record: a frozen dataclass without defaults, with a field for each setting
that it obeys. The field has the name of the setting and the unit in which the package counts. Its type decides what
stands for a setting that is switched off. So a setting is declared, is a field, and is used: nothing else names it.
"""

from collections.abc import Callable, Mapping
from dataclasses import Field, fields
from typing import TYPE_CHECKING, Final, TypeVar

from mypy_extensions import i64

from heliograph.settings.units import Rate

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Record = TypeVar("Record", bound=DataclassInstance)
else:
    Record = TypeVar("Record")

# Compiled parts count in 64 bits: what a setting says beyond these is no different from for ever.
_INTEGER_MAX: Final = (1 << 63) - 1
_MICROSECONDS_MAX: Final = 1 << 60
_PERCENT_MAX: Final = 1 << 30


def microseconds(seconds: float) -> int:
    """Seconds of a setting in the unit of the kernel."""
    return min(int(seconds * 1_000_000), _MICROSECONDS_MAX)


def percent(factor: float) -> int:
    """A factor of a setting, in hundredths."""
    return min(round(factor * 100), _PERCENT_MAX)


_UNITS: Final[Mapping[str, Callable[[float], int]]] = {"_us": microseconds, "_s": int, "_percent": percent}


def record(kind: type[Record], *groups: object, **own: object) -> Record:
    """A record of options with the settings of the same names.

    A field `retry_interval_us` takes the setting `retry_interval`: `_us` and `_s` are microseconds and whole seconds of
    a duration, `_percent` hundredths of a factor. An integer is at most what 64 bits hold. A setting without a
    value (switched off, or no limit) gives 0 in a field of a number, and None in a field that may be None. A rate is
    the amount in a second in a field of a `float`, and otherwise the amount and its microseconds.

    Args:
        own: Fields that are not one setting each.

    Raises:
        AttributeError: A field has no setting.
    """
    found = {each.name: _option(each, groups) for each in fields(kind) if each.name not in own}
    return kind(**found, **own)


def setting_of(option: str) -> tuple[str, str]:
    """The setting that a field takes, and the unit in which the field counts; empty where that is the setting's."""
    unit = next((unit for unit in _UNITS if option.endswith(unit)), "")
    return option.removesuffix(unit), unit


def _option(field: "Field[object]", groups: tuple[object, ...]) -> object:
    name, unit = setting_of(field.name)
    group = next((group for group in groups if hasattr(group, name)), None)
    if group is None:
        raise AttributeError(f"no setting {name} for the option {field.name}")
    value = getattr(group, name)
    is_integer = field.type in (int, i64)
    if value is None:
        return 0 if is_integer else 0.0 if field.type is float else None
    if isinstance(value, Rate):
        return value.per_second if field.type is float else (value.amount, microseconds(value.interval_s))
    if unit:
        value = _UNITS[unit](value)
    if field.type is float:
        return float(value)
    return min(value, _INTEGER_MAX) if is_integer else value
