"""Filters as regular expressions agree with the definition of MQTT, in Python and in Arrow."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from heliograph.mqtt.topic import topic_matches
from heliograph.storage.errors import InvalidFilterError
from heliograph.storage.topic_filter import TopicFilter, pattern_of_any
from storage.topics import filters_over, topics_over
from support.cases import cases

LEVELS = st.one_of(
    st.sampled_from(["", "a", "b", "$SYS", "a.b", "(x)", "[", "\\d", "^", "$", "a b", "\n", "é", "a|b", "*"]),
    st.text(st.characters(exclude_characters="/+#\0", exclude_categories=["Cs"]), max_size=3),
)
TOPICS = topics_over(LEVELS, 5)
FILTERS = filters_over(LEVELS, 5)


@settings(deadline=None)
@given(TOPICS, st.one_of(FILTERS, st.just("#")))
@example("a", "a/#")
@example("$SYS/x", "#")
@example("$SYS/x", "+/x")
@example("/x", "+/x")
@example("/", "#")
@example("a\nb", "#")
@example("a\nb/c", "+/#")
@example("x", "$")
def test_matches_as_mqtt_defines_it(topic: str, text: str) -> None:
    wanted = topic_matches(topic, text)
    assert TopicFilter(text).matches(topic) == wanted
    found = pc.match_substring_regex(
        pa.array([topic]), pattern_of_any([TopicFilter("no/such/topic"), TopicFilter(text)])
    )
    assert found.to_pylist() == [wanted]


@cases("text", ["", "a/#/b", "a+", "#/", "a\0"])
def test_refuses_what_is_no_filter(text: str) -> None:
    with pytest.raises(InvalidFilterError, match="database 'messages'"):
        TopicFilter(text, "messages")
