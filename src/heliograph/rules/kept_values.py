"""Values that rules keep under keys: what `kv_store_put` and `proc_dict_put` write."""

from itertools import chain
from typing import Final

from heliograph.rules.errors import EvaluationFault
from heliograph.rules.values import UNDEFINED, Bits, Value, bytes_of, describe

_KEYS_MAX: Final = 100_000
_VALUE_BYTES_MAX: Final = 65_536
_BYTES_MAX: Final = 64 << 20
_ITEM_BYTES: Final = 16


class KeptValues:
    """Values under keys, bounded in number and in bytes, since messages say what is kept. Owned by an `Environment`."""

    def __init__(self) -> None:
        self._values: dict[Value, tuple[Value, int]] = {}
        self._bytes = 0

    def copy(self) -> "KeptValues":
        """The same values, which can be changed without changing these; called in any thread."""
        other = KeptValues()
        other._values, other._bytes = self._values.copy(), self._bytes
        return other

    def put(self, key: Value, value: Value) -> Value:
        """Keep a value and return it; a key of a wrong kind, or a lack of room, is a fault of the rule."""
        size = _size(_key(key), _size(value, 0))
        if size > _VALUE_BYTES_MAX:
            raise EvaluationFault(f"a key and its value have at most {_VALUE_BYTES_MAX:,} bytes")
        known = self._values.get(key)
        if known is None and len(self._values) >= _KEYS_MAX:
            raise EvaluationFault(f"there are {_KEYS_MAX:,} keys already; delete some")
        size_before = 0 if known is None else known[1]
        if self._bytes + size - size_before > _BYTES_MAX:
            raise EvaluationFault(f"the values have {_BYTES_MAX >> 20} MiB already; delete some")
        self._values[key] = value, size
        self._bytes += size - size_before
        return value

    def get(self, key: Value, default: Value) -> Value:
        known = self._values.get(_key(key))
        return default if known is None else known[0]

    def remove(self, key: Value) -> Value:
        known = self._values.pop(_key(key), None)
        if known is not None:
            self._bytes -= known[1]
        return UNDEFINED


def _key(key: Value) -> Value:
    if isinstance(key, list | dict):
        raise EvaluationFault(f"a key must be a string, a number or a boolean, not {describe(key)}")
    return key


def _size(value: Value, already: int) -> int:
    """The bytes of a value, about, and those before it; of one that is too large, only that it is."""
    size = already + _ITEM_BYTES
    if isinstance(value, str | bytes):
        size += len(bytes_of(value)) if len(value) <= _VALUE_BYTES_MAX else len(value)
    elif type(value) is int:
        size += value.bit_length() // 8
    elif isinstance(value, Bits):
        size += value.length // 8
    elif isinstance(value, list | dict):
        for item in value if isinstance(value, list) else chain(value.keys(), value.values()):
            if size > _VALUE_BYTES_MAX:
                break
            size = _size(item, size)
    return size
