"""Templates with `${column}`: taken apart, and judged."""

from typing import Final

from heliograph.mqtt.template import split_template

#: What `${.}` stands for: the whole row as JSON.
WHOLE_ROW: Final = "."
#: How the text of a value begins that is bytes in Base64: `{"$base64":"AAE="}`.
BASE64_MARK: Final = '{"$base64":"'


def placeholders(template: str) -> list[str]:
    """What stands between the braces of a template's placeholders, in their order."""
    return [name for _, name in parts_of(template) if name is not None]


def template_fault(template: str) -> str | None:
    """Why a text is no template, or None if it is one."""
    if any("${" in text for text, _ in parts_of(template)):
        return f"{template!r} has a ${{ without its }}"
    return None


def parts_of(template: str) -> list[tuple[str, str | None]]:
    """Take a template apart: each text with the placeholder behind it, None behind the last."""
    parts = split_template(template, lambda name: True)
    return [(text, None if name is None else name.strip()) for text, name in parts]


def only_column(template: str) -> str | None:
    """The column of a template that is nothing but its placeholder; None for another one."""
    names = placeholders(template)
    is_alone = len(names) == 1 and template.startswith("${") and template.endswith("}") and names[0] != WHOLE_ROW
    return names[0] if is_alone else None
