"""The rules of the built-in database as a part of a node."""

from heliograph.access.built_in_rules.store import DATABASE, BuiltInRules
from heliograph.config import Config
from heliograph.node.data_dir import DataDirectory
from heliograph.node.metrics.storage import COMMITS, samples_of
from heliograph.observe.metric import Sample
from heliograph.parts import Part
from heliograph.storage.state.local import LocalState


class BuiltInRulesPart(Part):
    """Rules that commands set; owned by the node. Its database is opened when it is needed first.

    Attributes:
        rules: The rules.
    """

    name = "built_in_rules"
    metrics = COMMITS
    needs = ("data_dir",)

    def __init__(self, config: Config, directory: DataDirectory) -> None:
        self._state = LocalState(directory.path, DATABASE)
        self.rules = BuiltInRules(self._state)

    async def stop(self) -> None:
        """Commit what was taken, and close."""
        await self.rules.close()

    def samples(self) -> list[Sample]:
        """Counts of the database; none before it is open."""
        if not self.rules.is_open:
            return []
        return samples_of(DATABASE, self._state.statistics(), self._state.commit_times)
