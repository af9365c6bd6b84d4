"""The same with compaction in between: it changes neither what is read nor positions that were saved before."""

import time

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from heliograph.storage.columnar.compaction import CompactionOptions, Compactor
from storage.test_replay_property import Replay
from support.forms import examples


class CompactedReplay(Replay):
    @rule(rows=st.integers(2, 40), steps=st.integers(1, 20))
    def compact(self, rows: int, steps: int) -> None:
        options = CompactionOptions(min_age_us=-1_000_000, min_blocks=2, max_rows=rows, max_shared_rows=rows)
        compactor = Compactor(self.local, options)
        for _ in range(steps):
            compactor.step(time.time_ns() // 1000)


CompactedReplay.TestCase.settings = settings(
    Replay.TestCase.settings, max_examples=examples(40), stateful_step_count=30
)
TestCompactedReplay = pytest.mark.slow(CompactedReplay.TestCase)
