"""Code points that the specification advises against (MQTT 5 section 1.5.4), for operators who refuse them."""

from heliograph.mqtt.properties import Properties


def strict_fault(text: str) -> str | None:
    """The first code point of `text` that SHOULD NOT be in an MQTT string, as an explanation; None if there is none.

    These are the control characters U+0001 to U+001F and U+007F to U+009F, and Unicode's non-characters.
    """
    if text.isascii() and text.isprintable():
        return None
    for character in text:
        code_point = ord(character)
        if (
            code_point < 0x20
            or 0x7F <= code_point <= 0x9F
            or 0xFDD0 <= code_point <= 0xFDEF
            or code_point & 0xFFFE == 0xFFFE
        ):
            return f"U+{code_point:04X} in a string, which strict mode does not allow"
    return None


def strict_property_fault(properties: Properties) -> str | None:
    """The same for all strings among the properties of a packet."""
    for text in properties.strings.values():
        fault = strict_fault(text)
        if fault is not None:
            return fault
    for key, text in properties.user:
        fault = strict_fault(key) or strict_fault(text)
        if fault is not None:
            return fault
    return None
