"""What is declared in `control/proto_v1` is what a node answers."""

from pathlib import Path

from control.test_proto_v1 import asks
from heliograph.node.asked import methods_of
from support.asked_node import AskedNode


async def test_a_node_answers_every_ask_and_nothing_else(tmp_path: Path) -> None:
    live = await AskedNode(tmp_path).start()
    names = [method.name for method in methods_of(live.node.parts, "test", 0)]
    await live.stop()
    assert sorted(names) == sorted(asks())
