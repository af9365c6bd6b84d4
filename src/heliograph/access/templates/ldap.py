"""LDAP: how a value is written in a filter (RFC 4515) and in a distinguished name (RFC 4514)."""

from typing import Final

_OF_FILTERS: Final = "\\*()\0"
_OF_NAMES: Final = '\\",;+<>='


def filter_value(value: str) -> str:
    """A value as it stands in a filter: `*` and brackets are characters of it, and nothing else."""
    return "".join(map(_in_filter, value))


def dn_value(value: str) -> str:
    """A value as it stands in a distinguished name: it cannot end its attribute and begin another one."""
    escaped = "".join(map(_in_name, value))
    if escaped[:1] in ("#", " "):
        escaped = f"\\{escaped}"
    return f"{escaped[:-1]}\\ " if len(value) > 1 and value.endswith(" ") else escaped


def _in_filter(character: str) -> str:
    return _hex(character) if character in _OF_FILTERS or _is_byte(character) else character


def _in_name(character: str) -> str:
    if character in _OF_NAMES:
        return f"\\{character}"
    return _hex(character) if character < " " or _is_byte(character) else character


def _is_byte(character: str) -> bool:
    return "\udc80" <= character <= "\udcff"


def _hex(character: str) -> str:
    return f"\\{ord(character) & 0xFF:02x}"
