"""The dashboard for Grafana asks for metrics that there are, under their names in Prometheus."""

import json
import re
from pathlib import Path

from heliograph.actions.queries import QUERIES
from heliograph.control.proto_v1.metrics import DeclaredMetric
from heliograph.management.prometheus.scraping import name_of

_DASHBOARD = Path(__file__).resolve().parents[2] / "docs" / "grafana" / "pipeline.json"


def test_the_dashboard_shows_every_metric_of_queries_and_no_other() -> None:
    panels = json.loads(_DASHBOARD.read_text(encoding="utf-8"))["panels"]
    asked = " ".join(target["expr"] for panel in panels for target in panel["targets"])
    assert set(re.findall(r"heliograph_\w+", asked)) == {
        name_of(DeclaredMetric(one.name, one.kind, one.unit, list(one.labels), one.help)) for one in QUERIES
    }
