"""What collecting the tests has imported, which each run pays for."""

from typing import Final

import pytest

IMPORTED: Final = pytest.StashKey[frozenset[str]]()
