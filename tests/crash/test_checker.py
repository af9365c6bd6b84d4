"""The checker's own test: each promise broken on purpose in a small history is found, and nothing in a good one."""

from crash.checker import check, is_complete, matches
from crash.history import History, Published
from support.cases import cases


class Story:
    """A history told in steps, with one subscriber `sub` and a publisher of `t`."""

    def __init__(self, topic: str = "t", reader: str = "sub", qos: int = 2) -> None:
        self.history = History()
        self.topic = topic
        self.reader = reader
        self.span = self.history.subscribe(reader, "#", qos)
        self.span.acknowledged_at = self.history.tick()

    def publish(self, qos: int = 2, *, acknowledged: bool = True, is_clear: bool = False) -> Published:
        message = self.history.publish(self.topic, qos, is_clear=is_clear)
        if acknowledged:
            self.history.acknowledge(message, 0)
        return message

    def deliver(self, number: int, qos: int = 2, *, by: str = "sub") -> None:
        self.history.deliver(self.reader, self.topic, number, qos, by, False)

    @property
    def found(self) -> list[str]:
        return [violation.text.split(":")[0] for violation in check(self.history)]


def test_a_good_history() -> None:
    story = Story()
    for number in range(3):
        story.publish()
        story.deliver(number)
    story.publish(1)
    story.deliver(3, 1)
    story.deliver(3, 1)
    assert is_complete(story.history)
    assert story.found == []


def test_an_acknowledged_message_that_never_came() -> None:
    story = Story()
    for _ in range(3):
        story.publish()
    story.deliver(0)
    story.deliver(2)
    assert not is_complete(story.history)
    assert story.found == ["lost"]


@cases(
    ("is_subscribed", "is_repeated", "found"),
    [(False, True, []), (False, False, ["order"]), (True, True, ["order"])],
    ids=["repeated for a younger subscription", "not repeated", "subscribed before"],
)
def test_an_older_message_behind_a_newer_one(is_subscribed: bool, is_repeated: bool, found: list[str]) -> None:
    story = Story()
    if not is_subscribed:
        story.span.acknowledged_at = -1
    older = story.publish(1, acknowledged=not is_repeated)
    story.publish(1)
    story.span.acknowledged_at = max(story.span.acknowledged_at, 0) or story.history.tick()
    story.deliver(1, 1)
    if is_repeated:
        story.history.resend(older)
    story.deliver(0, 1)
    assert story.found == found


def test_a_message_that_was_not_acknowledged_may_come_or_not() -> None:
    story = Story()
    story.publish(acknowledged=False)
    story.publish(acknowledged=False)
    story.deliver(1)
    assert is_complete(story.history)
    assert story.found == []


def test_a_message_from_before_the_subscription_is_not_owed_and_must_not_come() -> None:
    story = Story()
    story.span.asked_at, story.span.acknowledged_at = 100, 101
    story.publish()
    assert story.found == []
    story.history.deliveries.clear()
    for _ in range(200):
        story.history.tick()
    story.deliver(0)
    assert story.found == ["phantom"]


def test_a_second_delivery_at_qos_2_and_at_qos_0() -> None:
    story = Story()
    story.publish()
    story.deliver(0)
    story.deliver(0)
    story.publish(0)
    story.deliver(1, 0)
    story.deliver(1, 0)
    assert story.found == ["repeated", "repeated"]


def test_first_deliveries_out_of_order() -> None:
    story = Story()
    for number in (1, 0, 2):
        story.publish(1)
        story.deliver(number, 1)
    assert story.found == ["order"]


def test_a_repetition_at_qos_1_may_come_later() -> None:
    story = Story()
    for number in (0, 1, 0, 1, 2):
        story.publish(1)
        story.deliver(number, 1)
    story.history.published["t"] = story.history.published["t"][:3]
    assert story.found == []


def test_a_message_sent_again_after_the_disk_failed_may_come_late_and_twice() -> None:
    story = Story()
    first, _ = story.publish(), story.publish()
    for number in (1, 0, 0):
        story.deliver(number)
    assert story.found == ["repeated", "order"]
    story.history.resend(first)
    assert not first.is_late
    story.history.disk_fails()
    story.history.disk_works()
    story.history.resend(first)
    assert story.found == []


def test_what_nobody_published() -> None:
    story = Story()
    story.publish()
    story.deliver(0)
    story.deliver(7)
    story.history.deliver("sub", "other", 0, 1, "sub", False)
    assert story.found == ["phantom", "phantom"]


def test_what_nobody_subscribed_to() -> None:
    story = Story()
    story.span.topic_filter = "t"
    story.publish()
    story.deliver(0)
    story.history.publish("u", 1)
    story.history.deliver("sub", "u", 0, 1, "sub", False)
    assert story.found == ["phantom"]


def test_what_was_published_after_the_subscription_ended() -> None:
    story = Story()
    story.publish()
    story.span.end_asked_at = story.history.tick()
    story.publish()
    story.span.end_acknowledged_at = story.history.tick()
    story.publish()
    story.deliver(1)
    assert story.found == []
    story.deliver(2)
    assert story.found == ["phantom"]


def test_another_quality_than_was_granted() -> None:
    story = Story(qos=1)
    story.publish(2)
    story.deliver(0, 2)
    assert story.found == ["quality"]


def test_two_members_of_a_group_that_get_one_message_at_qos_2() -> None:
    story = Story(reader="$share/g")
    for number in (1, 0):
        story.publish()
        story.deliver(number, by="one")
    assert story.found == []
    story.deliver(0, by="two")
    assert story.found == ["repeated"]


def test_retained_state_is_the_last_acknowledged_or_a_later_one() -> None:
    story = Story("r/t")
    for _ in range(3):
        story.publish(1)
        story.deliver(len(story.history.published["r/t"]) - 1, 1)
    story.publish(1, acknowledged=False)
    for number, found in ((1, ["retained"]), (2, []), (3, []), (-1, ["retained"])):
        view = story.history.view_retained()
        if number >= 0:
            view.found["r/t"] = story.history.tick(), number
        view.ended_at = story.history.tick()
        story.history.retained_views = [view]
        assert story.found == found


def test_a_cleared_topic_has_nothing_retained() -> None:
    story = Story("r/t")
    story.span.topic_filter = "t"
    story.publish(1)
    story.publish(1, is_clear=True)
    view = story.history.view_retained()
    view.ended_at = story.history.tick()
    story.history.retained_views = [view]
    assert story.found == []
    view.found["r/t"] = view.ended_at, 0
    assert story.found == ["retained"]


def test_filters() -> None:
    assert matches("#", "a/b")
    assert matches("a/#", "a")
    assert matches("a/+/c", "a/b/c")
    assert not matches("a/+", "a/b/c")
    assert not matches("a/b", "a")
