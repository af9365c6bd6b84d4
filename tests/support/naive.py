"""The specification's rules in their plainest form, to hold the fast ones against."""


def matches(topic: str, topic_filter: str) -> bool:
    """Whether a filter matches a topic name (MQTT 5 section 4.7), by its recursive definition."""
    if topic.startswith("$") and topic_filter[0] in "+#":
        return False
    return _match_levels(topic.split("/"), topic_filter.split("/"))


def _match_levels(names: list[str], filters: list[str]) -> bool:
    if filters == ["#"]:
        return True
    if not names or not filters:
        return not names and not filters
    return filters[0] in ("+", names[0]) and _match_levels(names[1:], filters[1:])
