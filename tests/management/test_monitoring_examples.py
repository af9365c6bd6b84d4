"""The dashboard and the alert rules of `examples/monitoring` ask for numbers that there are."""

import json
import re
from functools import cache
from pathlib import Path

from heliograph.config.settings import Config
from heliograph.control.proto_v1.metrics import DeclaredMetric
from heliograph.management.prometheus.emqx import add_cluster, stats_families
from heliograph.management.prometheus.machine import MachineUse
from heliograph.management.prometheus.scraping import is_emqx, name_of, names_of
from heliograph.management.prometheus.snapshot import snapshot_of
from support.cases import cases
from support.node_parts import every_part

FOLDER = Path(__file__).parents[2] / "examples" / "monitoring"
NAME = re.compile(r"\b(?:emqx|heliograph)_[a-z0-9_]+")


def declared() -> list[DeclaredMetric]:
    found = {metric.name: metric for part in every_part(Config()) for metric in part.metrics}
    return [DeclaredMetric(one.name, one.kind, one.unit, list(one.labels), one.help) for one in found.values()]


@cache
def known_names() -> set[str]:
    families = stats_families(snapshot_of("n", declared(), []), MachineUse())
    add_cluster(families, 1, 0)
    return {family.name for family in families} | names_of(declared())


def expressions() -> list[tuple[str, str]]:
    dashboard = json.loads((FOLDER / "dashboard.json").read_text())
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    found = [(panel["title"], target["expr"]) for panel in panels for target in panel["targets"]]
    found += [
        (one["name"], one["query"]["query"]) for one in dashboard["templating"]["list"] if "refId" in one["query"]
    ]
    rules = re.findall(r"alert: (\w+)\n\s+expr: (.+)", (FOLDER / "alerts.yml").read_text())
    assert len(rules) > 10
    return [*found, *rules]


@cases(("title", "expression"), expressions)
def test_each_expression_asks_for_numbers_that_a_node_gives(title: str, expression: str) -> None:
    names = NAME.findall(expression)
    assert names or expression.startswith("up{"), title
    assert set(names) - known_names() == set(), title


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads((FOLDER / "dashboard.json").read_text())["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + column, place["y"] + line) for column in range(place["w"]) for line in range(place["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells


def test_names_of_ours_are_unlike() -> None:
    names = [name_of(one) for one in declared() if not is_emqx(one.name)]
    assert len(set(names)) == len(names)
