"""The pipeline that a node runs beside itself: its failures are an alarm. `actions/test_spark.py` has one that runs."""

import asyncio
from pathlib import Path

import pytest

from heliograph.config.loading import load_config
from heliograph.config.pipeline import PipelineConfig
from heliograph.node.pipeline import ALARM, PipelineProcess
from heliograph.observe.alarms import Alarms
from heliograph.settings.errors import ConfigError

pytestmark = [pytest.mark.service, pytest.mark.slow]


class _Told:
    """Takes the messages of alarms, and tells that there was one."""

    def __init__(self) -> None:
        self.event = asyncio.Event()

    def put(self, topic: str, payload: bytes) -> None:
        self.event.set()


def test_a_pipeline_that_cannot_run_is_an_alarm(tmp_path: Path) -> None:
    async def fail() -> None:
        told = _Told()
        alarms = Alarms("node", told, lambda: 0)  # type: ignore[arg-type]  # all that alarms need of it
        config = PipelineConfig(enable=True, file=str(tmp_path / "nothere"))
        process = PipelineProcess(config, tmp_path, "127.0.0.1:9", "127.0.0.1:9", alarms, first_pause_s=30)
        process.start()
        await told.event.wait()
        await process.stop()
        (alarm,) = alarms.active()
        assert alarm.name == ALARM
        assert "nothere is neither a pipeline file nor a directory" in alarm.message
        assert process.statistics() == {"pipeline.running": 0, "pipeline.restarts": 0, "pipeline.failures": 1}

    asyncio.run(fail())


def test_a_pipeline_that_cannot_even_be_started_is_tried_again(tmp_path: Path) -> None:
    async def fail() -> None:
        told = _Told()
        alarms = Alarms("node", told, lambda: 0)  # type: ignore[arg-type]  # all that alarms need of it
        config = PipelineConfig(enable=True, file=str(tmp_path / "nothere"))
        process = PipelineProcess(config, tmp_path, "127.0.0.1:9", "127.0.0.1:9", alarms, first_pause_s=0.01)
        process.log_file.mkdir(parents=True)  # what is to be written to
        process.start()
        await told.event.wait()
        await process.stop()
        (alarm,) = alarms.active()
        assert "the pipeline cannot be started" in alarm.message
        assert process.statistics()["pipeline.failures"] == 3

    asyncio.run(fail())


def test_a_pipeline_needs_the_storage_reader(tmp_path: Path) -> None:
    file = tmp_path / "heliograph.conf"
    file.write_text("pipeline.enable = true\ndurable_storage.flight.enable = false")
    with pytest.raises(ConfigError) as caught:
        load_config(file)
    assert "a pipeline reads from the storage reader" in str(caught.value)
