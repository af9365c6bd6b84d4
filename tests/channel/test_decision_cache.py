"""What a connection remembers of decisions: by action and topic, so many, so long, the oldest first."""

from dataclasses import replace

from heliograph.channel.decision_cache import DecisionCache
from support.options import CHANNEL


def cache_of(size: int = 3, excludes: tuple[str, ...] = ()) -> DecisionCache:
    return DecisionCache(
        replace(CHANNEL, authz_cache_size=size, authz_cache_ttl_us=1000, authz_cache_excludes=excludes)
    )


def test_a_decision_is_about_one_action_and_one_topic() -> None:
    cache = cache_of()
    assert cache.keep(0, "t", True, 100) == 1100
    cache.keep(1, "t", False, 100)
    assert cache.until_us(0, "t") == 1100
    assert cache.until_us(1, "t") < 0
    assert (cache.until_us(2, "t"), cache.until_us(0, "u")) == (0, 0)


def test_the_oldest_goes_first_whatever_it_is_about() -> None:
    cache = cache_of()
    for number, topic in ((8, "a"), (0, "b"), (3, "c"), (0, "d")):
        cache.keep(number, topic, True, 100)
    assert (cache.until_us(8, "a"), len(cache)) == (0, 3)
    cache.keep(0, "b", True, 200)  # it is the newest now
    cache.keep(0, "e", True, 200)
    assert cache.until_us(3, "c") == 0
    assert all(cache.until_us(0, topic) for topic in "bde")


def test_what_is_excluded_is_not_remembered() -> None:
    cache = cache_of(excludes=("nocache/#", "+/x"))
    assert [cache.keep(0, topic, True, 1) for topic in ("nocache/a", "nocache", "a/x", "$a/x")][:3] == [0, 0, 0]
    assert cache.until_us(0, "$a/x") > 0


def test_nothing_is_remembered_without_room_or_time() -> None:
    assert cache_of(0).keep(0, "t", True, 1) == 0
    assert DecisionCache(replace(CHANNEL, authz_cache_ttl_us=0)).keep(0, "t", True, 1) == 0
