"""Gives workers of xdist a file at a time, also after one of them has died, where xdist 3.8 waits or begins again.

Its own `--dist loadfile` runs the test of which a worker died again, with the next worker and the one after that, each
until its limit; and it gives the files that the dead worker had finished to others, which then wait for ever for a test
of them.
"""

import re
from contextlib import suppress
from typing import Final

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    """The scheduler of `--dist loadfile`."""
    return FilesOfWorkers(config, log) if config.getvalue("dist") == "loadfile" else None


_USES_SPARK: Final = re.compile(r"\bspark: ")  # the fixture, as an argument
_DASHBOARD: Final = "tests/dashboard/"  # their node and their browser start once
_SYNTAX: Final = "from architecture.syntax import"  # which is read once


class FilesOfWorkers(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """Files wait in the order in which they were collected; a worker that ends its last but one test gets the next.

    Those that use Spark all go to one, whose session they share: a session starts a Java process, which takes a long
    time to become fast. Those of the dashboard and those that look at the syntax of our sources go to one as well. The
    others do something else meanwhile, and end when only such files are left.
    """

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        super().__init__(config, log)
        self._shared_by: dict[str, str] = {}
        self._node_of: dict[str, WorkerController] = {}  # by what its files share

    def remove_node(self, node: WorkerController) -> str | None:
        """Forget a worker, and let others do what it leaves of its files.

        Args:
            node: The worker, which is at its end or has died.

        Returns:
            The test of which it died, which has failed; None where none of its tests is left.
        """
        files = self.assigned_work.pop(node)
        self._node_of = {what: other for what, other in self._node_of.items() if other is not node}
        begun: str | None = next(
            (test for tests in files.values() for test, is_done in tests.items() if not is_done), None
        )
        if begun is None:
            return None
        files[self._split_scope(begun)][begun] = True
        for file, tests in reversed(files.items()):
            if not all(tests.values()):
                self.workqueue[file] = tests
                self.workqueue.move_to_end(file, last=False)
        self._reschedule_all()
        return begun

    def schedule(self) -> None:
        """Give files to the workers whose tests are known now."""
        is_first = self.collection is None
        super().schedule()
        if not is_first:
            self._reschedule_all()  # a second file: workers begin a test when they know the next one

    def _assign_work_unit(self, node: WorkerController) -> None:
        file = next((file for file in self.workqueue if self._is_for(node, file)), None)
        if file is None:
            self.assigned_work.setdefault(node, {})
            node.shutdown()
            return
        self.workqueue.move_to_end(file, last=False)
        if what := self._what_is_shared(file):
            self._node_of[what] = node
        with suppress(OSError):  # it has died, which is about to be told: what it was given is given to another one
            super()._assign_work_unit(node)

    def _is_for(self, node: WorkerController, file: str) -> bool:
        return self._node_of.get(self._what_is_shared(file), node) is node

    def _what_is_shared(self, file: str) -> str:
        """What a file shares with others that have to run in the same worker; empty for most."""
        if file not in self._shared_by:
            text = (self.config.rootpath / file).read_text(encoding="utf-8")
            uses = {
                "dashboard": file.startswith(_DASHBOARD),
                "spark": _USES_SPARK.search(text),
                "syntax": _SYNTAX in text,
            }
            self._shared_by[file] = next((what for what, does in uses.items() if does), "")
        return self._shared_by[file]

    def _reschedule_all(self) -> None:
        for node in self.nodes:
            self._reschedule(node)

    def _reschedule(self, node: WorkerController) -> None:
        if node in self.registered_collections:  # another may have begun and not be that far
            super()._reschedule(node)
