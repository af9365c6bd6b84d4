"""Lists of retained and delayed messages while messages come and go between their slices."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from heliograph.control import delayed, retained
from heliograph.control.proto_v1.delayed import DelayedPage
from heliograph.control.proto_v1.retained import RetainedTopics
from heliograph.retainer.retainer import Retainer
from heliograph.rpc.methods import SLICE
from retainer.retaining import KINDS, close, make_retainer, retain, settle
from support.asking import Asker
from support.options import RETAINER
from support.services import Node


def churn(retainer: Retainer, chance: random.Random, stays: set[str]) -> None:
    """Replace some messages, clear some that need not stay, and retain others that were not there before."""
    for number in range(20):
        retain(retainer, chance.choice(sorted(stays)), b"replaced")
        retainer.remove(f"gone/{chance.randrange(300)}")
        retain(retainer, f"new/{chance.randrange(10**9)}/{number}")
    settle(retainer)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_retained_all_the_time_is_listed_once(kind: str, tmp_path: Path) -> None:
    chance = random.Random(1)
    retainer = make_retainer(kind, tmp_path, replace(RETAINER, batch_read_number=40))
    stays = {f"stays/{number}" for number in range(300)}
    for number in range(300):
        retain(retainer, f"gone/{number}")
        retain(retainer, f"stays/{number}")
    settle(retainer)
    asker = Asker(retained.methods(lambda: retainer))
    told: list[str] = []
    for rows in asker.slices("retainer.topics", RetainedTopics()):
        assert len(rows) <= SLICE
        told += [row.topic for row in rows]
        if len(told) < 1500:  # new ones are listed too, so that it would go on for as long as they come
            churn(retainer, chance, stays)
    assert len(told) == len(set(told))
    assert stays <= set(told)
    close(retainer)


@pytest.mark.parametrize("seed", range(3))
def test_what_is_delayed_all_the_time_is_listed_once(seed: int) -> None:
    chance = random.Random(seed)
    node = Node()
    peer = node.connect()
    for number in range(400):
        peer.publish(f"$delayed/{1 if number % 4 == 0 else 1000}/t/{number}")
    asker = Asker(delayed.methods(node.delayed))
    removed: set[str] = set()
    told: list[str] = []
    for rows in asker.slices("delayed.list", DelayedPage()):
        assert len(rows) <= SLICE
        told += [row.topic for row in rows]
        if len(told) < 600:
            node.advance(0.5)
            peer.publish(f"$delayed/1000/new/{len(told)}")
            held = node.delayed.find(chance.randrange(1, 400))
            if held is not None:
                node.delayed.remove(held.number)
                removed.add(held.message.topic)
    assert len(told) == len(set(told))
    stayed = {f"t/{number}" for number in range(400) if number % 4} - removed
    assert stayed <= set(told)
