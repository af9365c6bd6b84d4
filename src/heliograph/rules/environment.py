"""What the functions of rules and expressions know besides their arguments and the message.

A rule is compiled for one `Environment`: a node has one, a command makes one, and a Python worker of Spark has one for
each set of schemas. Nothing of it belongs to the process, so that two nodes in one process know nothing of each other.
"""

import copy
import os
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from heliograph.rules.jq_process import DEFAULT_TIMEOUT_S, WorkerPool
from heliograph.rules.kept_values import KeptValues
from heliograph.rules.schemas.registry import SchemaRegistry
from heliograph.rules.values import string_of

if TYPE_CHECKING:
    from heliograph.rules.schemas.sparkplug_births import Births

VARIABLE_PREFIX: Final = "HELIOGRAPHVAR_"
_ALIASES_MAX: Final = 1_000_000

_NAME_LENGTH_MAX: Final = 1024
_VARIABLES_MAX: Final = 100_000


class Environment:
    """What evaluations share; every thread may use it. Owned by a node, a command or a Spark worker, which closes it.

    Args:
        schemas: The schemas that functions find by name; None for those that are built in.
        variables: What `getenv` sees, with the prefix HELIOGRAPHVAR_; None for the variables of the process, each of
            which is read once and kept.
        jq_timeout_s: How long a jq program may take where its call does not say.
    """

    def __init__(
        self,
        schemas: SchemaRegistry | None = None,
        variables: Mapping[str, str] | None = None,
        jq_timeout_s: float = DEFAULT_TIMEOUT_S,
        sparkplug_aliases_max: int = _ALIASES_MAX,
    ) -> None:
        self.schemas = SchemaRegistry() if schemas is None else schemas
        self.jq = WorkerPool(timeout_s=jq_timeout_s)
        self.kept = KeptValues()
        self._variables = variables
        self._variables_read: dict[str, str | bytes] = {}
        self._of_threads = threading.local()
        self._aliases_max = sparkplug_aliases_max
        self._births: Births | None = None

    def use(self, *, jq_timeout_s: float, sparkplug_aliases_max: int) -> None:
        self.jq.timeout_s = jq_timeout_s
        self._aliases_max = sparkplug_aliases_max
        if self._births is not None:
            self._births.limit(sparkplug_aliases_max)

    def with_schemas(self, schemas: SchemaRegistry) -> "Environment":
        """The same with other schemas, and with births of its own."""
        other = copy.copy(self)
        other.schemas, other._births = schemas, None
        return other

    def with_variables(self, variables: Mapping[str, str]) -> "Environment":
        other = copy.copy(self)
        other._variables, other._variables_read = variables, {}
        return other

    def for_trial(self) -> "Environment":
        """The same for a trial: it reads what was kept, and what it keeps itself goes with it."""
        other = copy.copy(self)
        other.kept, other._of_threads = self.kept.copy(), threading.local()
        return other

    def variable(self, name: str) -> str | bytes:
        """The variable HELIOGRAPHVAR_ and the name; '' if it is not set."""
        read = self._variables_read
        if name in read:
            return read[name]
        if len(name) > _NAME_LENGTH_MAX or "\0" in name:
            return ""
        variables = os.environ if self._variables is None else self._variables
        if len(read) >= _VARIABLES_MAX:
            read.clear()
        text = variables.get(VARIABLE_PREFIX + name, "")
        # Python writes bytes that are not UTF-8 as surrogates.
        return read.setdefault(name, text if text.isascii() else string_of(os.fsencode(text)))

    @property
    def kept_by_thread(self) -> KeptValues:
        found: KeptValues | None = getattr(self._of_threads, "kept", None)
        if found is None:
            found = self._of_threads.kept = KeptValues()
        return found

    @property
    def births(self) -> "Births":
        if self._births is None:
            # Imported on use: it imports the compiler of Protobuf schemas.
            from heliograph.rules.schemas.sparkplug_births import Births

            self._births = Births(self._aliases_max)
        return self._births

    def close(self) -> None:
        self.jq.close()
        self.schemas.close()

    def __repr__(self) -> str:
        return f"Environment({self.schemas!r}, {self.jq!r})"
