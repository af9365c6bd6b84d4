"""Topics and topic filters over few levels, so that filters often match."""

from hypothesis import strategies as st


def topics_over(levels: st.SearchStrategy[str], count_max: int = 4) -> st.SearchStrategy[str]:
    """Topics of so many levels at the most."""
    return st.lists(levels, min_size=1, max_size=count_max).map("/".join).filter(bool)


def filters_over(levels: st.SearchStrategy[str], count_max: int = 4) -> st.SearchStrategy[str]:
    """Topic filters with wildcards in the place of any of so many levels at the most."""
    named = st.lists(st.one_of(levels, st.just("+")), max_size=count_max)
    ends: st.SearchStrategy[list[str]] = st.sampled_from([[], ["#"]])
    return st.builds(lambda some, end: "/".join(some + end), named, ends).filter(bool)
