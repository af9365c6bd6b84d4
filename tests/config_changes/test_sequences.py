"""Many changes one after the other lead to where one start with the last text leads."""

from pathlib import Path
from random import Random

import pytest

from heliograph.config.effective import EffectiveSetting, effective_settings
from heliograph.config.layers import CLUSTER
from heliograph.config_changes.edits import MERGE, REPLACE, Edit
from heliograph.config_changes.terms import Terms
from heliograph.hocon.writing import to_hocon
from support.forms import examples
from support.live_node import ALICE, LiveNode

pytestmark = pytest.mark.service

CHANGES = examples(500)
KEPT = CHANGES * 2 // 5  # fewer than there are
# Paths with values of which every combination is valid.
VALUES = {
    "log.audit.rotation_count": ("1", "7", "null"),
    "log.audit.rotation_size": ("1MB", "2MB", "null"),
    "log.console.level": ("warning", "error", "null"),
    "mqtt.max_inflight": ("5", "64", "null"),
    "mqtt.max_topic_levels": ("12", "99"),
    "mqtt.session_expiry_interval": ("1h", "3h", "null"),
    "zones.fast.mqtt.max_mqueue_len": ("10", "infinity"),
    "zones.slow.mqtt.keepalive_multiplier": ("2", "3.5"),
    "zones.slow": ("null", "{ mqtt.max_inflight = 3 }"),
    "flapping_detect.max_count": ("3", "9", "null"),
    "auto_subscribe.topics": ('[{ topic = "a/${clientid}", qos = 1 }]', "[]", "null"),
    "rewrite": ('[{ action = all, source_topic = "x/#", re = "^x/(.+)$", dest_topic = "y/$1" }]', "[]"),
    "authorization.no_match": ("allow", "deny"),
    "rule_engine.rules.one": ('{ sql = "SELECT * FROM \\"t/#\\"" }', "null"),
    "rule_engine.rules.two.sql": ('"SELECT payload.x FROM \\"u\\""', '"SELECT topic FROM \\"v\\""'),
    "schema_registry.schemas.s": ('{ type = json, source = "{}" }', "null"),
    "node.name": ("a@b", "c@d", "null"),
    "banned.max_entries": ("100", "200"),
}


def random_edit(random: Random) -> Edit:
    paths = random.sample(sorted(VALUES), random.randint(1, 3))
    if random.random() < 0.7:
        return Edit(values=[(path, random.choice(VALUES[path])) for path in paths])
    text = "\n".join(f"{path} = {random.choice(VALUES[path])}" for path in paths)
    return Edit(text.replace("a@b", '"a@b"').replace("c@d", '"c@d"'), random.choice((MERGE, REPLACE)))


def told(live: LiveNode) -> tuple[str, list[EffectiveSetting]]:
    """The text of the node's own layer, and all that holds."""
    layers = live.manager.layers
    return to_hocon(layers.files[CLUSTER]), list(effective_settings(layers))


@pytest.mark.slow
async def test_random_changes_equal_one_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda descriptor: None)  # what it costs is not what is tested
    monkeypatch.setattr("heliograph.config_changes.files.REVISIONS_MAX", KEPT)
    random = Random(7)
    live = await LiveNode(tmp_path, "mqtt.max_topic_levels = 20").start()
    for _ in range(CHANGES):
        await live.manager.change(random_edit(random), ALICE, Terms(force=True))
        if random.random() < 0.05:
            await live.manager.roll_back(
                random.randint(max(0, live.manager.revision - 50), live.manager.revision), ALICE
            )
    again = await live.manager.plan(Edit())
    assert again.settings == []  # the parts of the node have what the files say, but for what waits
    assert set(again.restart) <= {"node.name"}
    revisions = await live.manager.revisions()
    assert len(revisions) == KEPT
    assert revisions[-1].number == live.manager.revision >= CHANGES // 2
    said, audit = told(live), live.part.audit.settings
    await live.stop()
    await live.start()
    assert (told(live), live.part.audit.settings) == (said, audit)
    assert (await live.manager.plan(Edit())).restart == []
    await live.stop()
