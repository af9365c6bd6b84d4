"""Keeps pandas out of a process: pyarrow loads it with its first array or scalar, if it is there.

It takes 35 MiB and half a second, more on a busy machine, and a process that does not use it wins nothing by it.
"""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class _NoPandas(MetaPathFinder):
    """Where `sys.modules` said that there is no pandas, that array would fail in pyarrow."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == "pandas":
            raise ModuleNotFoundError("this process does without pandas")
        return None


def keep_pandas_out() -> None:
    """Keep pandas out of this process; called before pyarrow is used."""
    sys.meta_path.insert(0, _NoPandas())
