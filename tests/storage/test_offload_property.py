"""The same with offload in between: what is read, plans, and positions that were saved before stay what they were."""

import shutil

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from heliograph.storage.columnar.block import OFFLOADED_VERSION
from heliograph.storage.columnar.database import LocalDatabase
from heliograph.storage.columnar.plan import ReadLimits, StreamPlan, plan_read
from heliograph.storage.interface import Position, StreamId
from heliograph.storage.offload import files as offload_files
from heliograph.storage.offload.blocks import OffloadedBlocks
from heliograph.storage.topic_filter import topic_filter
from storage.offloading import offload
from storage.test_compaction_property import CompactedReplay
from support.forms import examples


class OffloadedReplay(CompactedReplay):
    def open(self) -> LocalDatabase:
        database = super().open()
        database.fetch = OffloadedBlocks(self.data_dir).fetch
        return database

    @rule(part=st.floats(0, 1), messages=st.integers(1, 20), rows=st.integers(1, 30))
    def offload(self, part: float, messages: int, rows: int) -> None:
        local = [
            info.number
            for info in self.local.list_generations()
            if info.until is not None and info.shard == 0 and info.layout_version != OFFLOADED_VERSION
        ]
        if local:
            before = self.plans(messages)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(offload_files, "STUB_ROWS", rows)
                patch.setattr(offload_files, "GROUP_ROWS", 2 * rows)
                offload(self.local, local[int(part * (len(local) - 1))], "cold")
            assert self.plans(messages) == before

    def plans(self, messages: int) -> list[StreamPlan]:
        """What a reader that keeps to a limit is told, from the beginning to the end."""
        rocks, catalog = self.local.contents()
        positions: dict[StreamId, Position] = {}
        plans: list[StreamPlan] = []
        while not plans or any(step.rows for step in plans[-1].steps.values()):
            plan = plan_read(rocks, catalog, [topic_filter("#")], None, None, positions, ReadLimits(messages))
            positions |= {stream: step.position for stream, step in plan.steps.items()}
            plans.append(plan)
        return plans

    def teardown(self) -> None:
        super().teardown()
        shutil.rmtree(self.data_dir, ignore_errors=True)


OffloadedReplay.TestCase.settings = settings(CompactedReplay.TestCase.settings, max_examples=examples(30))
TestOffloadedReplay = pytest.mark.slow(OffloadedReplay.TestCase)
