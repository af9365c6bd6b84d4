"""Text for values in columns that have no one type: general unions, and types that hold themselves."""

from typing import Any

from heliograph.rules.json_text import encode_json


def column_text(value: Any) -> str | None:
    """The JSON text of a decoded value, with bytes in hexadecimal, since JSON has no place for them; None stays."""
    return None if value is None else encode_json(_writable(value))


def _writable(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {key: _writable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_writable(item) for item in value]
    return value if isinstance(value, str | int | float | None) else str(value)
