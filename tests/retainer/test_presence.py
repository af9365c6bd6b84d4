"""What is known not to be retained: never wrong, known again after a restart, and known with a million topics."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from heliograph.retainer.disk import DiskRetainer
from heliograph.retainer.presence import TopicBeginnings
from heliograph.retainer.retainer import INDEX_BUILDING, INDEX_READY
from retainer.retaining import close, make_retainer, retain, settle
from support.naive import matches
from support.strategies import topic_filters, topic_names

_DEEP = "/".join("abcdefg")


@given(
    names=st.lists(topic_names() | topic_names().map(lambda name: f"{_DEEP}/{name}"), max_size=20),
    wanted=topic_filters() | topic_filters().map(lambda topic_filter: f"{_DEEP}/{topic_filter}"),
)
def test_a_filter_that_matches_is_never_excluded(names: list[str], wanted: str) -> None:
    known = TopicBeginnings(18)
    for name in names:
        known.add(name)
    assert known.may_match(wanted) or not any(matches(name, wanted) for name in names)


def test_what_nothing_begins_like_is_excluded() -> None:
    known = TopicBeginnings(18)
    assert not known.may_match("#")
    for number in range(1000):
        known.add(f"site/{number}/state")
    assert known.may_match("site/7/+")
    assert known.may_match("site/7/state")
    assert known.may_match("site/7/state/#")
    others = [f"site/{number}/+/#" for number in range(1000, 2000)] + [f"device/{number}" for number in range(1000)]
    assert sum(map(known.may_match, others)) < 20


def disc(path: Path) -> DiskRetainer:
    retainer = make_retainer("disc-late", path)
    assert isinstance(retainer, DiskRetainer)
    return retainer


def learn(retainer: DiskRetainer) -> int:
    """Read on until everything is known; how many steps that took."""
    steps = 1
    while retainer.learn():
        steps += 1
    return steps


def test_a_restarted_node_knows_what_its_disk_has(tmp_path: Path) -> None:
    retainer = disc(tmp_path)
    for number in range(5000):
        retain(retainer, f"site/{number}/state")
    settle(retainer)
    close(retainer)
    retainer = disc(tmp_path)
    assert retainer.may_match("nothing/like/it")  # not everything was read yet
    assert 4 <= learn(retainer) <= 6
    assert not retainer.may_match("nothing/like/it")
    assert all(retainer.may_match(f"site/{number}/+") for number in range(5000))
    assert not retainer.learn()
    close(retainer)


def test_a_small_table_is_known_at_once(tmp_path: Path) -> None:
    retainer = disc(tmp_path)
    assert not retainer.may_match("device/7/#")
    retain(retainer, "device/7")
    assert retainer.may_match("device/7/#")
    retainer.table.open()  # as after a fault, with a change that no disk has yet
    assert retainer.may_match("device/7/#")
    assert not retainer.may_match("device/8/#")
    settle(retainer)
    assert retainer.may_match("device/7/#")
    close(retainer)


def test_what_was_forgotten_is_excluded_in_the_end(tmp_path: Path) -> None:
    retainer = disc(tmp_path)
    learn(retainer)
    for number in range(70_000):
        retain(retainer, f"{number}/a")
        if number % 1000 == 999:
            for gone in range(number - 999, number + 1):
                retain(retainer, f"{gone}/a", b"")
            settle(retainer)
            learn(retainer)
    # A filter is made anew when half of its bits are set: at most a fourth of what is looked up in vain is let pass.
    assert sum(retainer.may_match(f"{number}/a") for number in range(10_000)) < 2500
    close(retainer)


def test_a_filter_that_fills_up_is_made_larger(tmp_path: Path) -> None:
    retainer = disc(tmp_path)
    learn(retainer)
    for number in range(60_000):
        retain(retainer, f"{number}/a")
    settle(retainer)
    assert all(retainer.may_match(f"{number}/+") for number in range(60_000))
    assert sum(retainer.may_match(f"x{number}/+") for number in range(1000)) > 100
    learn(retainer)
    assert all(retainer.may_match(f"{number}/+") for number in range(60_000))
    assert sum(retainer.may_match(f"x{number}/+") for number in range(1000)) < 100
    close(retainer)


def test_a_table_that_cannot_be_read_excludes_nothing(tmp_path: Path) -> None:
    retainer = disc(tmp_path)
    for number in range(2000):
        retain(retainer, f"site/{number}/state", bytes(500))
    settle(retainer)
    close(retainer)
    table = max((tmp_path / "keyed" / "retained").glob("*.sst"), key=lambda path: path.stat().st_size)
    content = bytearray(table.read_bytes())
    content[len(content) // 2] ^= 0xFF
    table.write_bytes(content)
    retainer = disc(tmp_path)
    learn(retainer)
    assert retainer.may_match("nothing/like/it")
    assert all(retainer.may_match(f"site/{number}/+") for number in range(2000))
    close(retainer)


def test_topics_that_are_gone_are_forgotten_when_it_is_made_anew(tmp_path: Path) -> None:
    retainer = disc(tmp_path)
    assert retainer.index_state() == INDEX_BUILDING
    learn(retainer)
    assert retainer.index_state() == INDEX_READY
    retain(retainer, "here/a")
    retain(retainer, "gone/a")
    retain(retainer, "gone/a", b"")
    settle(retainer)
    assert retainer.may_match("gone/+")
    assert retainer.reindex()
    assert retainer.index_state() == INDEX_BUILDING
    assert retainer.may_match("here/+")
    learn(retainer)
    assert retainer.index_state() == INDEX_READY
    assert retainer.may_match("here/+")
    assert not retainer.may_match("gone/+")
    close(retainer)
