"""What the tests of the configuration language share: reading a text to plain values, or to its error."""

from collections.abc import Mapping

import pytest

from heliograph.hocon.document import parse_text
from heliograph.hocon.errors import HoconError
from heliograph.hocon.files import MemoryFiles
from heliograph.hocon.values import Plain, to_plain


def value_of(text: str | bytes, files: Mapping[str, str | bytes] | None = None) -> Plain:
    """The document as plain values; `files` are what it may include."""
    return to_plain(parse_text(text, name="main.conf", files=MemoryFiles(files or {})))


def field_of(text: str) -> Plain:
    """What `k` is set to by `k = text`."""
    document = value_of(f"k = {text}")
    assert isinstance(document, dict)
    return document["k"]


def error_of(text: str | bytes, files: Mapping[str, str | bytes] | None = None) -> HoconError:
    """The error that reading the document ends in."""
    with pytest.raises(HoconError) as caught:
        parse_text(text, name="main.conf", files=MemoryFiles(files or {}))
    return caught.value
