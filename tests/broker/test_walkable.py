"""Walks through a list that changes meet everything that was there the whole time once, and nothing twice."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from heliograph.broker.exclusive import ExclusiveTopics
from heliograph.broker.subscription import Subscriber
from heliograph.broker.walkable import Listed, ListWalk, WalkableList
from support.forms import examples


class Watched:
    """A walk, with what it must meet yet and what it has met."""

    def __init__(self, walk: ListWalk[Listed], present: list[Listed]) -> None:
        self.walk = walk
        self.must: list[Listed] = list(present)
        self.met: list[Listed] = []


class ChangingList(RuleBasedStateMachine):
    """Anything joins, leaves and is replaced between the steps of several walks."""

    def __init__(self) -> None:
        super().__init__()
        self.listed: WalkableList[Listed] = WalkableList()
        self.present: list[Listed] = []
        self.walks: list[Watched] = []

    @rule(count=st.one_of(st.integers(1, 6), st.just(300)))
    def join(self, count: int) -> None:
        for _ in range(count):
            entry = Listed()
            self.listed.add(entry)
            self.present.append(entry)

    @precondition(lambda self: self.present)
    @rule(at=st.integers(0, 1000))
    def leave(self, at: int) -> None:
        entry = self.present.pop(at % len(self.present))
        self.listed.remove(entry)
        for watched in self.walks:
            watched.must = [one for one in watched.must if one is not entry]

    @precondition(lambda self: self.present)
    @rule(at=st.integers(0, 1000))
    def give_place(self, at: int) -> None:
        before, after = self.present[at % len(self.present)], Listed()
        self.listed.replace(before, after)
        self.present[at % len(self.present)] = after
        for watched in self.walks:
            watched.must = [after if one is before else one for one in watched.must]
            watched.met = [after if one is before else one for one in watched.met]

    @precondition(lambda self: len(self.walks) < 4)
    @rule()
    def begin(self) -> None:
        self.walks.append(Watched(self.listed.walk(), self.present))

    @precondition(lambda self: self.walks)
    @rule(which=st.integers(0, 3), count=st.integers(1, 4))
    def go_on(self, which: int, count: int) -> None:
        watched = self.walks[which % len(self.walks)]
        for entry in watched.walk.take(count):
            assert any(one is entry for one in watched.must), "it was not there when the walk began, or was met before"
            watched.must = [one for one in watched.must if one is not entry]
            watched.met.append(entry)

    @precondition(lambda self: self.walks)
    @rule(which=st.integers(0, 3), is_whole=st.booleans())
    def end(self, which: int, is_whole: bool) -> None:
        watched = self.walks.pop(which % len(self.walks))
        if is_whole:
            rest = watched.walk.take(1_000_000)
            assert {id(one) for one in rest} == {id(one) for one in watched.must}
            assert len(rest) == len(watched.must)
            assert watched.walk.take(1) == []

    @precondition(lambda self: self.walks)
    @rule(which=st.integers(0, 3), count=st.integers(0, 12))
    def pass_over(self, which: int, count: int) -> None:
        watched = self.walks[which % len(self.walks)]
        newest_first = sorted(watched.must, key=lambda entry: entry.serial, reverse=True)
        watched.walk.skip(count)
        watched.must = newest_first[count:]

    @precondition(lambda self: self.walks)
    @rule(which=st.integers(0, 3))
    def come_back_with_the_number_only(self, which: int) -> None:
        watched = self.walks[which % len(self.walks)]
        watched.walk = self.listed.walk(watched.walk.before)

    @invariant()
    def chunks_are_in_order_and_none_is_empty(self) -> None:
        serials = [entry.serial for chunk in self.listed.chunks for entry in chunk]
        assert serials == sorted(entry.serial for entry in self.present)
        assert len(self.listed) == len(self.present)
        assert all(self.listed.chunks)


TestChangingList = ChangingList.TestCase
TestChangingList.settings = settings(max_examples=examples(30), stateful_step_count=40, deadline=None)


def test_an_exclusive_topic_is_released_by_its_holder_only() -> None:
    topics, one, other = ExclusiveTopics(), Subscriber("one"), Subscriber("other")
    topics.take("t", one)
    topics.take("t", one)
    assert (len(topics), topics.holder("t")) == (1, one)
    topics.release("t", other)
    topics.release("unknown", other)
    assert [(taken.topic, taken.holder) for taken in topics.walk().take(9)] == [("t", one)]
    topics.release("t", one)
    assert (len(topics), topics.holder("t")) == (0, None)
