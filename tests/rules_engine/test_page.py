"""The page about rules in the broker: its configuration is one, and its tables name what there is."""

import re
from pathlib import Path

from heliograph.config.loading import load_config
from heliograph.config.republish import RepublishAction
from heliograph.config.rules import ConsoleAction, PipelineAction
from heliograph.rules.engine.counters import NAMES
from heliograph.rules.engine.faults import rule_faults

PAGE = (Path(__file__).parents[2] / "docs" / "rule_engine.md").read_text(encoding="utf-8")


def test_the_configuration_of_the_page_is_read(tmp_path: Path) -> None:
    file = tmp_path / "node.conf"
    file.write_text(re.findall(r"```hocon\n(.*?)```", PAGE, re.DOTALL)[0], encoding="utf-8")
    rule = load_config(file, {}, checks=(rule_faults,)).rule_engine.rules["hot"]
    kinds = [type(action) for action in rule.actions]
    assert kinds == [ConsoleAction, RepublishAction, PipelineAction]
    assert rule.actions[1] == RepublishAction("alerts/${clientid}", "${temp} °C", 1, False)


def test_every_count_and_argument_is_described() -> None:
    for name in (*NAMES, *RepublishAction.__slots__):
        assert f"| `{name}` |" in PAGE
