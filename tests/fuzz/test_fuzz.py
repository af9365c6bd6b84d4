"""Every target on its corpus and on some thousand inputs made from it, always the same; and that faults are found.

`make fuzz` goes on from here.
"""

import gc
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from fuzz import conversation
from fuzz.engine import Budget, fuzz
from fuzz.mutation import Mutator, with_lengths
from fuzz.selection import select
from fuzz.targets import CORPUS, TARGETS
from heliograph.transport.addresses import plain_host
from support.cases import cases

SHORT_RUNS = {"decoder": 20_000, "conversation": 1500, "filters": 1000, "websocket": 1000, "handshake": 4000}


@cases("name", TARGETS)
def test_the_corpus(name: str) -> None:
    found = TARGETS[name].corpus
    assert len(found) >= 20
    for data in found:
        TARGETS[name].run(data)


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_inputs_made_from_the_corpus(name: str) -> None:
    target = TARGETS[name]
    mutator = target.mutator(seed=1)
    for _ in range(SHORT_RUNS[name]):
        data = mutator.next()
        try:
            target.run(data)
        except BaseException as error:
            error.add_note(f"the input, for scripts/fuzz.py {name} FILE: bytes.fromhex({data.hex()!r})")
            raise


@pytest.mark.slow
def test_conversations_leave_nothing_in_memory() -> None:
    def blocks() -> int:
        for data in TARGETS["conversation"].corpus:
            conversation.run(data)
        gc.collect()
        return sys.getallocatedblocks()

    blocks()
    before = blocks()
    assert blocks() - before < 500


def test_the_corpus_is_small() -> None:
    assert sum(path.stat().st_size for path in CORPUS.rglob("*") if path.is_file()) < 1_000_000


def test_the_same_seed_makes_the_same_inputs() -> None:
    inputs = [[mutator.next() for _ in range(200)] for mutator in (TARGETS["decoder"].mutator(5) for _ in range(2))]
    assert inputs[0] == inputs[1]
    assert len(set(inputs[0])) > 150


def test_remaining_lengths_are_put_right() -> None:
    assert with_lengths(b"\x30\x09abc") == b"\x30\x03abc"
    assert with_lengths(b"\xc0\x00\x30\x02ab\x30") == b"\xc0\x00\x30\x02ab\x30\x00"
    assert with_lengths(b"\x30\xff\xff\xff\xff\xff" + b"x" * 200) == b"\x30\xc9\x01\xff" + b"x" * 200


def test_inputs_that_reach_nothing_new_are_not_kept() -> None:
    def run(data: bytes) -> None:
        plain_host("::ffff:c000:201" if data.startswith(b"$") else "192.0.2.1")

    assert select(run, [b"a", b"abc", b"$", b"$$"]) == [b"$", b"a"]


# --- the engine on targets that have a fault


def found_by(run: object, directory: Path, *, hang_s: float = 10.0) -> tuple[str, bytes]:
    assert callable(run)
    outcome = fuzz("planted", run, Mutator([b"abc"], 1), Budget(5000, 20.0), directory, hang_s=hang_s)
    reproducer = outcome.reproducer.read_bytes() if outcome.reproducer is not None else b""
    return outcome.fault, reproducer


def test_an_exception_is_found(tmp_path: Path) -> None:
    def run(data: bytes) -> None:
        if len(data) > 5 and data[0] == 0x80:
            raise ValueError("planted")

    fault, data = found_by(run, tmp_path)
    assert "ValueError: planted" in fault
    with pytest.raises(ValueError, match="planted"):
        run(data)


def test_an_input_that_kills_the_process_is_found(tmp_path: Path) -> None:
    def run(data: bytes) -> None:
        if data.startswith(b"\xff"):
            os.kill(os.getpid(), signal.SIGKILL)

    fault, data = found_by(run, tmp_path)
    assert fault == "the process died of signal 9"
    assert data.startswith(b"\xff")


@pytest.mark.slow
def test_an_input_that_does_not_end_is_found(tmp_path: Path) -> None:
    def run(data: bytes) -> None:
        if data.startswith(b"\xff"):
            time.sleep(1000)  # the hang

    fault, data = found_by(run, tmp_path, hang_s=2.0)
    assert fault == "one input has been running for 2 s"
    assert data.startswith(b"\xff")


@pytest.mark.slow
def test_a_process_that_grows_is_found(tmp_path: Path) -> None:
    kept: list[bytes] = []

    def run(data: bytes) -> None:
        kept.append(bytes(200_000) + data)
        time.sleep(0.001)  # so that it grows for as long as it is looked at

    outcome = fuzz("planted", run, Mutator([b"abc"], 1), Budget(1000, 20.0), tmp_path)
    assert outcome.fault.startswith("the process grew by ")


def test_nothing_is_found_where_nothing_is(tmp_path: Path) -> None:
    outcome = fuzz("planted", lambda data: None, Mutator([b"abc"], 1), Budget(3000, 20.0), tmp_path)
    assert (outcome.fault, outcome.runs, outcome.reproducer) == ("", 3000, None)
