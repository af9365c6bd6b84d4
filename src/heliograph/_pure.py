"""Compiled modules or sources: which of them run, and how to choose the sources (`HELIOGRAPH_PURE=1`)."""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from types import ModuleType


class _SourceFinder(MetaPathFinder):
    """Finds `heliograph` modules as `.py` files only; everything else is left to the ordinary finders."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Look for `name` in the folders of its parent package."""
        if not name.startswith(("heliograph.", "heliograph_bench.")) or path is None:
            return None
        for folder in path:
            spec = FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES)).find_spec(name, target)
            if spec is not None and spec.loader is not None:
                return spec
        return None


def prefer_sources() -> None:
    """Make imports of `heliograph` modules ignore compiled extensions."""
    sys.meta_path.insert(0, _SourceFinder())


def is_compiled() -> bool:
    """Whether the protocol packages run compiled."""
    from heliograph.mqtt import decode

    return not str(decode.__file__).endswith(".py")
