"""What the pipeline calls the query of an action."""

import hashlib
import re
from typing import Final

_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_]")
_NAME_LENGTH_MAX: Final = 80


def query_name(action_id: str) -> str:
    """The name of the query for an action: of its type and name, and no other action's.

    Args:
        action_id: Type and name, as `http:my_action`.
    """
    digest = hashlib.sha256(action_id.encode()).hexdigest()[:8]
    return f"action_{_NOT_IN_NAMES.sub('_', action_id)[:_NAME_LENGTH_MAX]}_{digest}"
