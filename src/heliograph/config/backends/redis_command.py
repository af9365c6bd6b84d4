r"""Redis commands as an operator writes them, split into words as `redis-cli` does.

Blanks separate words. In double quotes `\n`, `\r`, `\t`, `\b`, `\a`, `\xHH` and `\` before any other character are
escapes, in single quotes `\'` is. A quote that ends must end the word. The text is split when the configuration is
read, and values of clients are inserted into words afterwards: no value can make a word, a field or another command.
"""

from collections.abc import Collection, Sequence
from typing import Final

__all__ = ["RedisCommandError", "checked_name", "command_words"]

_BLANKS: Final = " \t\n\r\v\f"
_ESCAPES: Final = {"n": b"\n", "r": b"\r", "t": b"\t", "b": b"\b", "a": b"\a"}
_HEX: Final = frozenset("0123456789abcdefABCDEF")


class RedisCommandError(ValueError):
    """A command that is not one of those that are valid here."""


def command_words(text: str) -> list[str]:
    """The words of a command.

    Raises:
        RedisCommandError: A quote is not closed, or does not end its word, or a word is not UTF-8.
    """
    words: list[str] = []
    at = 0
    while True:
        while at < len(text) and text[at] in _BLANKS:
            at += 1
        if at == len(text):
            return words
        word, at = _word(text, at)
        try:
            words.append(word.decode())
        except UnicodeDecodeError:
            raise RedisCommandError(f"word {len(words) + 1} is not UTF-8") from None


def checked_name(words: Sequence[str], names: Collection[str]) -> str:
    """The name of a command, in capitals; refused if it is not one of `names`, or has no key.

    Raises:
        RedisCommandError: See above.
    """
    valid = " or ".join(f"{name} KEY" for name in names)
    if not words or words[0].upper() not in names:
        raise RedisCommandError(
            f"it begins with {words[0]!r}; valid is {valid}" if words else f"it is empty, not {valid}"
        )
    if len(words) == 1:
        raise RedisCommandError(f"{words[0]} has no key")
    return words[0].upper()


def _word(text: str, at: int) -> tuple[bytes, int]:
    """One word and where it ends."""
    word = bytearray()
    while at < len(text) and text[at] not in _BLANKS:
        if text[at] in "\"'":
            at = _quoted(text, at, word)
            if at < len(text) and text[at] not in _BLANKS:
                raise RedisCommandError(f"a blank is missing behind the quote at column {at}")
            break
        word += text[at].encode()
        at += 1
    return bytes(word), at


def _quoted(text: str, begin: int, word: bytearray) -> int:
    """Append what is quoted from `begin` on; where it ends."""
    quote, at = text[begin], begin + 1
    while at < len(text):
        if text[at] == quote:
            return at + 1
        if text[at] != "\\" or at + 1 == len(text):
            word += text[at].encode()
            at += 1
        elif quote == "'":
            at = _single_escape(text, at, word)
        else:
            at = _double_escape(text, at, word)
    raise RedisCommandError(f"the quote at column {begin + 1} is not closed")


def _single_escape(text: str, at: int, word: bytearray) -> int:
    if text[at + 1] == "'":
        word += b"'"
        return at + 2
    word += b"\\"
    return at + 1


def _double_escape(text: str, at: int, word: bytearray) -> int:
    digits = text[at + 2 : at + 4]
    if text[at + 1] == "x" and len(digits) == 2 and _HEX.issuperset(digits):
        word.append(int(digits, 16))
        return at + 4
    word += _ESCAPES.get(text[at + 1], text[at + 1].encode())
    return at + 2
