"""What collecting the tests has imported, which each worker of xdist pays for."""

from typing import Final

import pytest

IMPORTED: Final = pytest.StashKey[frozenset[str]]()
