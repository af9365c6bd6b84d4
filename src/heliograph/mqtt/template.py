"""Texts with placeholders `${...}`: mountpoints, topics, payloads, what sinks send. Their users fill them in."""

from collections.abc import Callable


def split_template(template: str, is_placeholder: Callable[[str], bool]) -> list[tuple[str, str | None]]:
    """Take a template apart: each text with what stands between the braces behind it, None behind the last.

    Args:
        is_placeholder: Whether there is a placeholder of that name; what looks like any other is text.
    """
    parts: list[tuple[str, str | None]] = []
    done, looked = 0, 0
    while True:
        begin = template.find("${", looked)
        end = template.find("}", begin) if begin >= 0 else -1
        if end < 0:
            parts.append((template[done:], None))
            return parts
        looked = begin + 2
        name = template[looked:end]
        if is_placeholder(name):
            parts.append((template[done:begin], name))
            done = looked = end + 1
