"""What can be watched: an object of JSON that is renewed every so often."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from heliograph.management.asking.nodes import Nodes

Look: TypeAlias = Callable[[], Awaitable[Any]]
"""Makes the object as it is now; an object that is the same as before is not sent again."""


@dataclass(frozen=True, slots=True)
class LiveSubject:
    """Something that can be watched.

    Attributes:
        scope: What a caller must be allowed to do.
        period_s: How often a look is taken while there are streams.
        begin: Makes a look that remembers what it saw before; called when the first stream wants the subject.
    """

    name: str
    scope: str
    period_s: float
    begin: Callable[[Nodes], Look]
