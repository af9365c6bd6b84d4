"""The pipeline in the dashboard: its queries as they run, the rows that they refused, and what is done about them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.browser import SETTINGS, Dashboard, expect
from support.managed_clients import Peers
from support.management import ManagedNode

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_RULES = 'rules.obs { sql = "SELECT 10 / payload.n AS n FROM \\"a/#\\"", sink { type = parquet, path = obs } }'
_ROW_SCHEMA = '{"type":"struct","fields":[{"name":"n","type":"long","nullable":true,"metadata":{}}]}'
_EVENT = datetime(2026, 1, 1, 12, tzinfo=UTC)
# It starts Spark three times.
pytestmark = [pytest.mark.service, pytest.mark.long, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def piped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManagedNode]:
    """A node with a pipeline."""
    directory = tmp_path_factory.mktemp("piped")
    file = directory / "pipeline.hocon"
    file.write_text(_RULES)
    settings = f"""{SETTINGS}
    durable_storage.messages.topics = ["a/#"]
    pipeline {{ enable = true, file = "{file}", master = "local[1]", trigger = 100ms
      spark_conf {{ spark.driver.memory = 512m }} }}"""
    with ManagedNode(directory, settings) as node:
        yield node


def test_queries_dead_letters_and_plan(browser: Browser, piped: ManagedNode) -> None:
    with Peers(piped) as peers, Dashboard(browser, piped) as dashboard:
        station = peers.connect("station")
        for payload in (b'{"n": 5}', b'{"n": 0}', b"no JSON"):
            station.publish("a/1", payload, 1)
        page = dashboard.log_in().open("pipeline").page
        expect(page.get_by_text("runs", exact=True)).to_be_visible()
        row = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="obs"))
        expect(row.get_by_role("link", name="2")).to_be_visible(timeout=240_000)
        expect(row).to_contain_text("running")
        dashboard.check_access()
        dashboard.check_width()
        page.get_by_role("navigation", name="Pipeline").get_by_role("link", name="Dead letters").click()
        page.get_by_role("link", name="Show obs").click()
        expect(page.get_by_role("row").filter(has_text="zero")).to_contain_text("a/1")
        expect(page.get_by_role("row").filter(has_text="not valid JSON")).to_contain_text("station")
        dashboard.check_access()
        file = piped.node.data_dir.parent / "pipeline.hocon"
        file.write_text(_RULES.replace("10 / payload.n", "10 + payload.n"))
        page.get_by_role("button", name="Replay obs").click()
        page.get_by_role("dialog").get_by_role("button", name="Replay obs").click()
        expect(page.get_by_text("1 letter replayed, 1 row written, 1 letter stays.")).to_be_visible(timeout=240_000)
        expect(page.get_by_role("row").filter(has_text="zero")).to_have_count(0)
        _replay_late_rows(dashboard, piped)
        page.get_by_role("navigation", name="Pipeline").get_by_role("link", name="Plan").click()
        page.get_by_role("button", name="Make the plan").click()
        expect(page.get_by_text("3 messages: 2 rows, 1 failed")).to_be_visible(timeout=240_000)
        dashboard.check_access()
        dashboard.check_width()


def _replay_late_rows(dashboard: Dashboard, piped: ManagedNode) -> None:
    page, output = dashboard.page, piped.node.data_dir / "pipeline" / "output"
    place = output / "late" / "obs" / "0123abcd-00000000"
    place.mkdir(parents=True)
    row = {"view": "obs", "batch": 0, "event_time": _EVENT, "watermark": _EVENT, "row": '{"n": 3}'}
    kept = pa.Table.from_pylist([row | {"row_schema": _ROW_SCHEMA}])
    kept = kept.append_column("replayed_at", pa.nulls(1, pa.timestamp("us", "UTC")))
    pq.write_table(kept, place / "part-0.parquet")
    page.get_by_role("navigation", name="Pipeline").get_by_role("link", name="Late rows").click()
    expect(page.get_by_role("button", name="Replay late rows of obs from obs")).to_be_visible()
    page.get_by_role("link", name="Show late rows of obs").click()
    shown = page.get_by_role("row").filter(has_text='{"n": 3}')
    expect(shown).to_contain_text("obs")
    page.get_by_role("button", name="Replay late rows").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Name")).to_have_value("obs_late")
    dashboard.check_access()
    dashboard.expected_errors.append("400")
    dialog.get_by_label("Name").fill("obs")
    dialog.get_by_role("button", name="Replay late rows").click()
    expect(dialog.get_by_text("obs writes the table obs")).to_be_visible(timeout=240_000)
    dialog.get_by_label("Name").fill("obs_late")
    dialog.get_by_role("button", name="Replay late rows").click()
    expect(page.get_by_text("1 row replayed to Parquet table obs_late, 0 rows stay.")).to_be_visible(timeout=240_000)
    expect(shown).to_have_count(0)
    page.get_by_label("Those that were replayed, too").check()
    expect(shown).to_contain_text("replayed")
    assert pq.read_table(output / "obs_late").column("n").to_pylist() == [3]
