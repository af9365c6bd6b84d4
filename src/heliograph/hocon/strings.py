"""The text inside quotes: escapes of `"..."`, and the raw and the indented form of triple quotes.

The scanner finds where a string ends; this module says what it means.
"""

import re

from heliograph.hocon.errors import HoconError, SourcePosition

_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))", re.DOTALL)
_SIMPLE = {'"': '"', "\\": "\\", "n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


def unescape(text: str, position: SourcePosition) -> str:
    """What stands between the quotes of a `"..."` string.

    Escapes other than the known ones keep their backslash: regular expressions in real files rely on it.

    Raises:
        HoconError: `\\u` without four hexadecimal digits, or half of a surrogate pair.
    """
    if "\\" not in text:
        return text
    pieces: list[str] = []
    end = 0
    high = ""  # the first half of a surrogate pair, waiting for the second
    for match in _ESCAPE.finditer(text):
        between = text[end : match.start()]
        if high and (between or match[1] is None):
            raise _lone_surrogate(high, position)
        pieces.append(between)
        end = match.end()
        if match[1] is not None:
            code = int(match[1], 16)
            if 0xD800 <= code < 0xDC00 and not high:
                high = match[1]
            elif 0xDC00 <= code < 0xE000 and high:
                pieces.append(chr(0x10000 + ((int(high, 16) - 0xD800) << 10) + (code - 0xDC00)))
                high = ""
            elif high or 0xD800 <= code < 0xE000:
                raise _lone_surrogate(high or match[1], position)
            else:
                pieces.append(chr(code))
        elif match[2] == "u":
            found = text[match.start() : match.start() + 6]
            raise HoconError.at(
                position,
                f'"{found}" is not a character: \\u takes four hexadecimal digits; write \\\\u for a backslash',
            )
        else:
            pieces.append(_SIMPLE.get(match[2], match[0]))
    if high:
        raise _lone_surrogate(high, position)
    pieces.append(text[end:])
    return "".join(pieces)


def _lone_surrogate(digits: str, position: SourcePosition) -> HoconError:
    return HoconError.at(
        position,
        f'"\\u{digits}" is half of a surrogate pair: write both halves together, as in "\\ud83d\\ude00", '
        "or the character itself",
    )


def dedent(text: str) -> str:
    r"""What stands between triple quotes: as it is, or without its indentation if it starts with `~` + line end.

    Lines end at LF; a CR before it belongs to the line. Only blanks indent: a tab is text.
    """
    if text.startswith("~\n"):
        body = text[2:]
    elif text.startswith("~\r\n"):
        body = text[3:]
    else:
        return text
    body = body.removesuffix("~")
    lines = body.split("\n")
    last = len(lines) - 1
    indents = [
        _indent(line)
        for number, line in enumerate(lines)
        if line not in ("", "\r") and not (number == last and not line.strip(" "))
    ]
    if not indents:
        # Only a last line of blanks (if anything): nothing says how deep the text stands.
        lines[last] = lines[last].lstrip(" ")
        return "\n".join(lines)
    cut = min(indents)
    return "\n".join(line[min(cut, _indent(line)) :] for line in lines)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
